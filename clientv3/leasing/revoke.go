package leasing

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/internal/pause"
)

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
