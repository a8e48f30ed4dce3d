package leasing

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
)

// revoked is the value by which a leasing key asks its owner to delete it. A
// leasing key that nobody wants is empty.
const revoked = "REVOKE"

// batch is how many leasing keys one transaction revokes or deletes. It needs one
// operation more than that of what the server allows in a transaction, 128 by default.
const batch = 16

// requestRevoke asks the owners of leasing keys to delete them. Incarnations that
// have gone meanwhile are left out.
func (k *kv) requestRevoke(ctx context.Context, keys []leasingKey) error {
	return k.eachIf(ctx, keys, func(lkey string) clientv3.Op {
		return clientv3.OpPut(lkey, revoked, clientv3.WithIgnoreLease())
	})
}

// eachIf carries out an operation on each leasing key that is still the same
// incarnation, again and again until it is known to be done. It gives up when ctx
// or the client ends, or when the server refuses.
func (k *kv) eachIf(ctx context.Context, keys []leasingKey, do func(lkey string) clientv3.Op) error {
	for part := range slices.Chunk(keys, batch) {
		ops := make([]clientv3.Op, len(part))
		for i, l := range part {
			same := clientv3.Compare(clientv3.CreateRevision(l.name), "=", l.rev)
			ops[i] = clientv3.OpTxn([]clientv3.Cmp{same}, []clientv3.Op{do(l.name)}, nil)
		}
		var pause backoff
		for {
			_, err := k.remote.Txn(ctx).Then(ops...).Commit()
			if err == nil {
				break
			}
			if permanent(err) || k.client.Ctx().Err() != nil {
				return err
			}
			if err := pause.wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitDeletion waits until the leasing keys, which were there at rev, have been
// deleted. It may return earlier, when the server cannot tell any more.
func (k *kv) awaitDeletion(ctx context.Context, keys []leasingKey, rev int64) error {
	if len(keys) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	waiting := map[string]bool{}
	first, last := keys[0].name, keys[0].name
	for _, l := range keys {
		waiting[l.name] = true
		first, last = min(first, l.name), max(last, l.name)
	}
	events := k.client.Watch(ctx, first,
		clientv3.WithRange(last+"\x00"), clientv3.WithRev(rev+1), clientv3.WithFilterPut())
	for resp := range events {
		if err := resp.Err(); err != nil {
			if errors.Is(err, rpctypes.ErrCompacted) {
				return nil
			}
			return err
		}
		for _, ev := range resp.Events {
			delete(waiting, string(ev.Kv.Key))
		}
		if len(waiting) == 0 {
			return nil
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := k.client.Ctx().Err(); err != nil {
		return err
	}
	return errors.New("leasing: the client's Watcher was closed while a leasing key was being revoked")
}
