package concurrency

import (
	"context"
	"errors"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
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
