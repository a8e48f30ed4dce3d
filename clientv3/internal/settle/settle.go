// Package settle determines the outcome of transactions whose answer was lost, by sending them again.
package settle

import (
	"context"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/retry"
)

// maxTries bounds how often a transaction is sent. If it fails repeatedly, it is not one
// broken connection that is in the way.
const maxTries = 3

// Commit carries out a transaction whose condition does not hold again once it was
// carried out, so that it may be repeated while its outcome is unknown. txn makes it.
//
// unsure is the error of the last request, if there was one, that may have been carried
// out, or may yet be, unacknowledged; that can be said of every
// request during which ctx ended. With err nil, such a request may be what has made the
// condition fail. With a ctx that has ended nothing is sent.
func Commit(ctx context.Context, txn func() clientv3.Txn) (resp *clientv3.TxnResponse, unsure, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	for range maxTries {
		if resp, err = txn().Commit(); err == nil {
			return resp, unsure, nil
		}
		if retry.OutcomeOf(err) != retry.OutcomeUnknown {
			break
		}
		unsure = err
		if ctx.Err() != nil || retry.Classify(err, retry.Evidence{Sent: true}) == retry.Executed {
			break // a store that is full refuses every copy
		}
	}
	return nil, unsure, err
}
