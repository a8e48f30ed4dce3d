package recipe

import (
	"cmp"
	"context"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/settle"
)

// commitOnce is [settle.Commit] for a transaction that cannot be distinguished from others
// that make its condition fail. It reports whether the transaction was executed.
func commitOnce(ctx context.Context, txn func() clientv3.Txn) (bool, error) {
	resp, unsure, err := settle.Commit(ctx, txn)
	if err == nil && resp.Succeeded {
		return true, nil
	}
	return false, cmp.Or(unsure, err)
}
