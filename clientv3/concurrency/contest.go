package concurrency

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/settle"
)

// errWatchClosed is returned when a watch ends without a reason, as when the Watcher is
// closed.
var errWatchClosed = errors.New("concurrency: the watch was closed")

// campaign tries to make the waiter's key the first: enter puts it with the value, wait returns when it is the first,
// and campaign returns the queue that wait returns. A failure restores the state before, if the cluster is reachable.
//
// The error is that of ctx if ctx has ended, and ErrSessionExpired if the session or the
// waiter's key was lost.
func (w *waiter) campaign(
	ctx context.Context, value string,
	enter func(context.Context, string) (queue, error), wait func(context.Context, queue) (queue, error),
) (won queue, err error) {
	s := w.session
	if s.lost() {
		return queue{}, w.reason(ctx, ErrSessionExpired)
	}
	bound, release := s.bind(ctx)
	defer release()
	had := w.rev
	if err := s.claims.enter(bound, w); err != nil {
		return queue{}, w.reason(ctx, err)
	}
	q, err := enter(bound, value)
	if w.uncertain {
		s.cleanupKey(w.key)
	}
	if err != nil && had != 0 { // the waiter keeps the key that it had
		w.rev = had
		s.claims.hold(w, had)
		return queue{}, w.reason(ctx, err)
	}
	if err == nil {
		won, err = wait(bound, q)
	}
	if err == nil && (s.lost() || w.rev == 0) {
		err = ErrSessionExpired
	}
	if err != nil {
		w.withdraw(ctx)
		return queue{}, w.reason(ctx, err)
	}
	s.claims.hold(w, w.rev)
	return won, nil
}

// reason returns the caller's error for err; ctx is the caller's context, which may be the
// session's, too.
func (w *waiter) reason(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case w.session.lost():
		return ErrSessionExpired
	case errors.Is(err, errWatchClosed):
		return cmp.Or(w.session.client.Ctx().Err(), err)
	default:
		return err
	}
}

// await returns when one read, at one revision, shows that the waiter's key is the
// first of the queue, or one of the first of a semaphore.
func (w *waiter) await(ctx context.Context, q queue) (queue, error) {
	if w.holders > 1 && q.ahead != nil {
		return w.awaitPlace(ctx)
	}
	for q.ahead != nil {
		if err := w.awaitDeletion(ctx, q); err != nil {
			return queue{}, err
		}
		resp, err := w.readAhead(ctx, lastAhead()...)
		if err != nil {
			return queue{}, err
		}
		q = queue{header: resp.Header, ahead: optxn.Key(resp, 0), own: optxn.Key(resp, 1)}
	}
	return q, nil
}

// awaitDeletion returns nil when the waiter's key or the one ahead may have been deleted
// since the queue was read. The next read shows what happened.
func (w *waiter) awaitDeletion(ctx context.Context, q queue) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Other keys of the queue are not watched: each deletion would wake all
	// waiters.
	since := []clientv3.OpOption{clientv3.WithRev(q.header.Revision + 1), clientv3.WithFilterPut()}
	own := w.session.client.Watch(ctx, w.key, since...)
	ahead := w.session.client.Watch(ctx, string(q.ahead.Key), since...)
	return each(ctx, own, ahead, func(*pb.ResponseHeader, *clientv3.Event) bool { return false })
}

// withdraw removes the waiter, even if ctx has ended. It deletes the key if it exists, or
// if a request could have put it, unless another waiter of the session holds it. If the
// session is lost it deletes nothing: the lease expires by itself.
func (w *waiter) withdraw(ctx context.Context) {
	s := w.session
	rev, unsure := w.rev, w.uncertain
	w.rev, w.uncertain = 0, false
	defer s.claims.leave(w)
	if s.lost() || (rev == 0 && !unsure) {
		return
	}
	spared, end, begun := s.claims.remove(w.key, w)
	if !begun { // another waiter tries, and may fail without seeing the key
		s.cleanupKey(w.key)
		return
	}
	defer end()
	ctx, cancel := s.cleanupContext(ctx)
	defer cancel()
	if err := s.discard(ctx, w.key, rev, spared); err != nil {
		s.client.GetLogger().Warn("key of a failed lock or campaign could not be deleted yet; it is deleted with the session at the latest",
			zap.String("key", w.key), zap.Int64("lease-id", int64(s.id)), zap.Error(err))
		s.cleanupKey(w.key)
	}
}

// release deletes the waiter's key and, on success, removes the waiter.
func (w *waiter) release(ctx context.Context, key string, rev int64) (*clientv3.TxnResponse, error) {
	end := func() {}
	if _, e, begun := w.session.claims.remove(w.key, w); begun {
		end = e
	}
	resp, err := w.session.remove(ctx, key, rev)
	end()
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	w.abandon()
	return resp, nil
}

func (w *waiter) abandon() {
	w.rev = 0
	w.session.claims.leave(w)
}

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
