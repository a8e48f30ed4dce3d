package leasing

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/internal/pause"
)

// releaseQueue holds the leasing keys that this client has released and not yet
// deleted.
type releaseQueue struct {
	mu      sync.Mutex
	pending map[string]int64 // creation revision by name
	more    chan struct{}    // holds a token while pending may be non-empty
}

// add adds leasing keys. Of two incarnations of one, only the later can exist.
func (q *releaseQueue) add(keys ...leasingKey) {
	if len(keys) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range keys {
		q.pending[l.name] = max(q.pending[l.name], l.rev)
	}
	pause.Signal(q.more)
}

func (q *releaseQueue) take() []leasingKey {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := make([]leasingKey, 0, len(q.pending))
	for name, rev := range q.pending {
		keys = append(keys, leasingKey{name, rev})
	}
	clear(q.pending)
	return keys
}

// release deletes the queued leasing keys until the KV is closed.
func (k *kv) release() {
	for {
		select {
		case <-k.releases.more:
			// On an error the KV is closed, and the leasing keys are deleted with the
			// session, or the server refuses, and the next revocation requests it again.
			_ = k.deleteKeys(k.ctx, k.releases.take())
		case <-k.ctx.Done():
			return
		}
	}
}

func (k *kv) deleteKeys(ctx context.Context, keys []leasingKey) error {
	_, _, err := k.eachIf(ctx, keys, func(lkey string) clientv3.Op { return clientv3.OpDelete(lkey) })
	return err
}

// revoked is the value of a leasing key that its owner must delete. Otherwise the
// value is empty.
const revoked = "REVOKE"

// batch is how many leasing keys one transaction revokes or deletes. The transaction
// has one more operation; the server's limit is 128 by default.
const batch = 16

// eachIf executes an operation on each leasing key that is still the same
// incarnation, and repeats it until it has succeeded. It stops when ctx or the
// client ends, or when the server refuses. It returns the keys that were the same, and
// the revision of the first transaction.
func (k *kv) eachIf(ctx context.Context, keys []leasingKey, do func(lkey string) clientv3.Op) (same []leasingKey, rev int64, err error) {
	for part := range slices.Chunk(keys, batch) {
		ops := make([]clientv3.Op, len(part))
		for i, l := range part {
			isSame := clientv3.Compare(clientv3.CreateRevision(l.name), "=", l.rev)
			ops[i] = clientv3.OpTxn([]clientv3.Cmp{isSame}, []clientv3.Op{do(l.name)}, nil)
		}
		var resp *clientv3.TxnResponse
		for failures := 1; ; failures++ {
			if resp, err = k.remote.Txn(ctx).Then(ops...).Commit(); err == nil {
				break
			}
			if permanent(err) || k.client.Ctx().Err() != nil {
				return nil, 0, err
			}
			if err := pause.For(ctx, pauses.Delay(failures)); err != nil {
				return nil, 0, err
			}
		}
		for i, l := range part {
			if optxn.At(resp, i).GetResponseTxn().GetSucceeded() {
				same = append(same, l)
			}
		}
		rev = cmp.Or(rev, resp.Header.GetRevision())
	}
	return same, rev, nil
}

// awaitDeletion waits until the leasing keys, which existed at rev, are deleted. It
// may return earlier if the watch was compacted.
func (k *kv) awaitDeletion(ctx context.Context, keys []leasingKey, rev int64) error {
	if len(keys) == 0 {
		return nil
	}
	waiting := map[string]bool{}
	first, last := keys[0].name, keys[0].name
	for _, l := range keys {
		waiting[l.name] = true
		first, last = min(first, l.name), max(last, l.name)
	}
	deletions := clientv3.Events(ctx, k.client, first, clientv3.WithRange(last+"\x00"), clientv3.WithRev(rev+1), clientv3.WithFilterPut())
	for ev, err := range deletions {
		switch {
		case errors.Is(err, rpctypes.ErrCompacted):
			return nil
		case err != nil:
			return cmp.Or(k.client.Ctx().Err(), err)
		}
		if delete(waiting, string(ev.Kv.Key)); len(waiting) == 0 {
			return nil
		}
	}
	return nil
}
