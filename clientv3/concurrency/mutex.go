package concurrency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/settle"
)

var (
	// ErrLocked is returned by [Mutex.TryLock] if another session holds the lock or
	// waits for it.
	ErrLocked = errors.New("mutex: Locked by another session")

	// ErrSessionExpired is returned by [Mutex.Lock], [Mutex.TryLock] and
	// [Election.Campaign] if the session was lost, with the reason in [Session.Err],
	// or if the caller's key was deleted.
	ErrSessionExpired = errors.New("mutex: session is expired")

	// ErrLockReleased is returned by [Mutex.Unlock] for a lock that is not held.
	ErrLockReleased = errors.New("mutex: lock has already been released")
)

// releasedKey is the Key of an unlocked mutex. No lock uses this key, so IsOwner
// never holds.
const releasedKey = "\x00"

// Mutex is a lock that one session at a time holds. Use it from one goroutine at a
// time.
//
// Mutexes of one session with the same prefix are the same lock: each can lock it
// while another holds it, and the first Unlock releases it for all. For exclusion
// between goroutines of one process, use a session for each, or a sync.Mutex as well.
type Mutex struct {
	waiter waiter
	key    string
	rev    int64 // -1 while the lock is not held
	header *pb.ResponseHeader
}

// NewMutex returns the lock named pfx. A contender's key is pfx, a slash and its
// session's lease in hexadecimal. Every key below pfx and the slash counts as a key of
// the lock, so no lock's name may be below another's.
func NewMutex(s *Session, pfx string) *Mutex {
	return &Mutex{waiter: newWaiter(s, pfx+"/"), rev: -1}
}

// TryLock acquires the lock if it is free or the session holds it, and otherwise
// returns [ErrLocked]. It sends one request, which writes nothing if the lock is
// taken. Other errors are those of Lock.
func (m *Mutex) TryLock(ctx context.Context) error {
	return m.acquire(ctx, m.waiter.takeFree, func(_ context.Context, q queue) (queue, error) {
		if q.ahead != nil {
			return queue{}, ErrLocked
		}
		return q, nil
	})
}

// Lock acquires the lock. Contenders get it in the order of arrival. Lock sends one
// request if the lock is free; otherwise it watches the caller's key and the one ahead,
// through faults and membership changes, and reads the queue again when one of them is
// deleted.
//
// The error is that of ctx if it has ended, [ErrSessionExpired] if the session or the
// caller's key was lost while waiting, and otherwise the server's, such as
// rpctypes.ErrLeaseNotFound if the lease did not exist from the start and
// rpctypes.ErrNoLeader for a context made by [clientv3.WithRequireLeader]. On an error
// Lock deletes its key; if the cluster does not answer, that takes up to 3 s after the
// end of ctx, or the TTL if shorter. If the mutex was locked before and the cluster does
// not answer, it remains locked.
func (m *Mutex) Lock(ctx context.Context) error {
	return m.acquire(ctx, m.waiter.enqueue, m.waiter.await)
}

func (m *Mutex) acquire(
	ctx context.Context,
	enter func(context.Context, string) (queue, error), wait func(context.Context, queue) (queue, error),
) error {
	won, err := m.waiter.campaign(ctx, "", enter, wait)
	switch {
	case err == nil:
		m.key, m.rev, m.header = m.waiter.key, m.waiter.rev, won.header
	case m.waiter.rev == 0:
		m.key, m.rev = releasedKey, -1
	}
	return err
}

// Unlock releases the lock. It returns nil if the lock was lost, and [ErrLockReleased] if
// the mutex is not locked. After any other error the lock counts as held, and Unlock may be
// called again. If the failed request may still delete the key, the session's next Lock
// joins the end of the queue with a new key.
func (m *Mutex) Unlock(ctx context.Context) error {
	if m.rev <= 0 {
		return ErrLockReleased
	}
	if _, err := m.waiter.release(ctx, m.key, m.rev); err != nil {
		return err
	}
	m.key, m.rev = releasedKey, -1
	return nil
}

// IsOwner returns a comparison that holds in a transaction if the lock is held. It
// never holds for a mutex that is not locked.
func (m *Mutex) IsOwner() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(m.key), "=", m.rev)
}

// Key returns the caller's key of the held lock. It is empty before the first Lock.
func (m *Mutex) Key() string { return m.key }

// Header returns the header of the response that confirmed the lock. Its revision
// is greater than that of every earlier holder.
func (m *Mutex) Header() *pb.ResponseHeader { return m.header }

// NewLocker returns a lock named pfx as a sync.Locker. Lock and Unlock wait while the
// client is open, and panic with the errors of [Mutex.Lock] and [Mutex.Unlock]. Like
// [Mutex], it does not exclude goroutines that use the same session.
func NewLocker(s *Session, pfx string) sync.Locker { return &locker{mutex: NewMutex(s, pfx)} }

type locker struct{ mutex *Mutex }

func (l *locker) Lock() {
	if err := l.mutex.Lock(l.mutex.waiter.session.client.Ctx()); err != nil {
		panic(err)
	}
}

func (l *locker) Unlock() {
	if err := l.mutex.Unlock(l.mutex.waiter.session.client.Ctx()); err != nil {
		panic(err)
	}
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

// lastAhead returns the options that get the last-created key of a prefix.
func lastAhead() []clientv3.OpOption {
	return append(clientv3.WithLastCreate(), clientv3.WithKeysOnly())
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
	// This context outlives ctx, and keeps its values, such as credentials. After the TTL the key has expired with the lease.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.opts.ttlDuration(), cleanupTimeout))
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
