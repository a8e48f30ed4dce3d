// Package settle determines the outcome of transactions whose answer was lost, by sending them again.
package settle

import (
	"context"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/retry"
)

// maxTries bounds how often a transaction is sent: after several failures the cause is not one broken
// connection.
const maxTries = 3

// Commit executes a transaction whose condition no longer holds once it was executed: so it may be sent
// again while its outcome is unknown. txn makes it for each request. Nothing is sent after ctx has ended.
//
// A condition that a key does not exist holds again when the key is deleted, and then another copy may be
// executed, also after Commit has returned: use it only if no other client deletes the key, or if you clean up.
//
// unsure is the error of the last failed request that was, may have been or may yet be executed, nil
// if there was none. It is set if ctx ended during a request. If err is nil and the condition did not
// hold, that request may be the reason.
func Commit(ctx context.Context, txn func() clientv3.Txn) (resp *clientv3.TxnResponse, unsure, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	for range maxTries {
		if resp, err = txn().Commit(); err == nil {
			return resp, unsure, nil
		}
		if retry.OutcomeOf(err) == retry.OutcomeNotExecuted {
			break
		}
		unsure = err
		if ctx.Err() != nil || retry.Classify(err, retry.Evidence{Sent: true}) == retry.Executed {
			break // a store that is full refuses every copy
		}
	}
	return nil, unsure, err
}
