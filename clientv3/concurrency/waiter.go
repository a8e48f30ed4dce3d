package concurrency

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/settle"
)

// waiter is a session's entry in the queue below a prefix. Its key's name ends in the
// lease; the keys created before it are ahead of it.
type waiter struct {
	session *Session
	prefix  string
	key     string
	// rev is the revision that created the key and identifies it: a later key with the
	// same name is another one. 0 if unknown.
	rev int64
	// uncertain says that a request to put the key may have been executed, or may still be.
	uncertain bool
	// holders is how many of the oldest keys hold; 0 counts as 1.
	holders int
}

func newWaiter(s *Session, prefix string) waiter {
	return waiter{session: s, prefix: prefix, key: fmt.Sprintf("%s%x", prefix, s.Lease())}
}

// queue is the queue of a prefix as one transaction returned it.
type queue struct {
	header *pb.ResponseHeader
	// own is the waiter's key if it existed before, else nil.
	own *mvccpb.KeyValue
	// ahead is a key created before the waiter's, usually the last of them. nil if
	// the waiter's key is the first.
	ahead *mvccpb.KeyValue
}

// lastAhead returns the options that get the last-created key of a prefix.
func lastAhead() []clientv3.OpOption {
	return append(clientv3.WithLastCreate(), clientv3.WithKeysOnly())
}

// enqueue puts the waiter's key at the end of the queue, unless it is already in
// the queue.
func (w *waiter) enqueue(ctx context.Context, value string) (queue, error) {
	return w.put(ctx, clientv3.Compare(clientv3.CreateRevision(w.key), "=", 0), value)
}

// takeFree puts the waiter's key if the queue has no other key.
func (w *waiter) takeFree(ctx context.Context, value string) (queue, error) {
	free := clientv3.Compare(clientv3.CreateRevision(w.prefix).WithPrefix(), "=", 0)
	return w.put(ctx, free, value)
}

// put writes the waiter's key if cond holds, which requires that the key does not exist,
// and reads the queue. A key that a late request may still delete is not adopted: put
// deletes it first.
func (w *waiter) put(ctx context.Context, cond clientv3.Cmp, value string) (queue, error) {
	w.rev, w.uncertain = 0, false
	for {
		q, err := w.putOnce(ctx, cond, value)
		if err != nil || q.own == nil || !w.session.claims.deleteScheduled(w.key, w.rev) {
			return q, err
		}
		if _, err := w.session.remove(ctx, w.key, w.rev); err != nil {
			return queue{}, err
		}
	}
}

func (w *waiter) putOnce(ctx context.Context, cond clientv3.Cmp, value string) (queue, error) {
	first := append(clientv3.WithFirstCreate(), clientv3.WithKeysOnly())
	resp, unsure, err := settle.Commit(ctx, func() clientv3.Txn {
		return w.session.client.Txn(ctx).If(cond).
			Then(clientv3.OpGet(w.prefix, lastAhead()...), clientv3.OpPut(w.key, value, clientv3.WithLease(w.session.id))).
			Else(clientv3.OpGet(w.prefix, first...), clientv3.OpGet(w.key))
	})
	w.uncertain = w.uncertain || unsure != nil
	if err != nil {
		return queue{}, err
	}
	q := queue{header: resp.Header, ahead: optxn.Key(resp, 0)}
	if resp.Succeeded {
		w.rev = resp.Header.Revision
		return q, nil
	}
	if q.own = optxn.Key(resp, 1); q.own == nil {
		return q, nil
	}
	w.rev = q.own.CreateRevision
	if q.ahead.GetCreateRevision() == w.rev {
		q.ahead = nil
	}
	return q, nil
}

// readAhead reads those keys ahead of the waiter's that the options ask for, and then the
// waiter's key. The error is ErrSessionExpired if that is gone.
func (w *waiter) readAhead(ctx context.Context, opts ...clientv3.OpOption) (*clientv3.TxnResponse, error) {
	resp, err := w.session.client.Txn(ctx).Then(
		clientv3.OpGet(w.prefix, append(opts, clientv3.WithMaxCreateRev(w.rev-1))...),
		clientv3.OpGet(w.key, clientv3.WithKeysOnly()),
	).Commit()
	if err != nil {
		return nil, err
	}
	if own := optxn.Key(resp, 1); own == nil || own.CreateRevision != w.rev {
		w.rev = 0
		return nil, ErrSessionExpired
	}
	return resp, nil
}

// remove deletes the key if it was created at rev.
func (s *Session) remove(ctx context.Context, key string, rev int64) (*clientv3.TxnResponse, error) {
	resp, unsure, err := settle.Commit(ctx, func() clientv3.Txn {
		return s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(key), "=", rev)).
			Then(clientv3.OpDelete(key))
	})
	if err != nil && unsure != nil {
		s.claims.scheduleDelete(key, rev)
	}
	return resp, err
}
