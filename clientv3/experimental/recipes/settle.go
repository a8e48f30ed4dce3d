package recipe

import (
	"cmp"
	"context"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/retry"
)

// maxTries bounds how often a conditional write is sent whose outcome is unknown. Sent
// again it finds out what became of it; if that fails repeatedly, it is not one broken
// connection that is in the way.
const maxTries = 3

// commit carries out a transaction whose condition does not hold again once it was
// carried out, so that it may be repeated while its outcome is unknown. If there was
// such a request, unsure is its error: then it may be the one that has made the condition
// fail.
func commit(ctx context.Context, txn func() clientv3.Txn) (resp *clientv3.TxnResponse, unsure, err error) {
	for range maxTries {
		if resp, err = txn().Commit(); err == nil {
			return resp, unsure, nil
		}
		if retry.OutcomeOf(err) != retry.OutcomeUnknown {
			break
		}
		unsure = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, unsure, err
}

// commitOnce is commit where nothing tells this caller's transaction from others that
// make the condition fail. It reports whether it was carried out.
func commitOnce(ctx context.Context, txn func() clientv3.Txn) (bool, error) {
	resp, unsure, err := commit(ctx, txn)
	if err == nil && resp.Succeeded {
		return true, nil
	}
	return false, cmp.Or(unsure, err)
}
