package recipe

import (
	"cmp"
	"context"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/settle"
)

// commitOnce is [settle.Commit] where nothing tells this caller's transaction from others that
// make the condition fail. It reports whether it was carried out.
func commitOnce(ctx context.Context, txn func() clientv3.Txn) (bool, error) {
	resp, unsure, err := settle.Commit(ctx, txn)
	if err == nil && resp.Succeeded {
		return true, nil
	}
	return false, cmp.Or(unsure, err)
}
