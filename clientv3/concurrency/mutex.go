package concurrency

import (
	"context"
	"errors"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
)

var (
	// ErrLocked is returned by [Mutex.TryLock] when another session has the lock, or
	// waits for it.
	ErrLocked = errors.New("mutex: Locked by another session")

	// ErrSessionExpired is returned by [Mutex.Lock], [Mutex.TryLock] and
	// [Election.Campaign] when the session was lost, for which [Session.Err] gives the
	// reason, or when somebody deleted the own key.
	ErrSessionExpired = errors.New("mutex: session is expired")

	// ErrLockReleased is returned by [Mutex.Unlock] for a lock that is not held.
	ErrLockReleased = errors.New("mutex: lock has already been released")
)

// releasedKey is the Key of a mutex that was unlocked. No lock ever has this key, so
// that IsOwner cannot hold.
const releasedKey = "\x00"

// Mutex is a lock that one session at a time has. It is for one goroutine at a time.
//
// Mutexes of one session with the same prefix are one and the same lock: each gets it
// while another one has it, and the first Unlock releases it for all. To exclude
// goroutines of one process from each other takes a session for each, or a sync.Mutex
// around it.
type Mutex struct {
	waiter waiter
	key    string
	rev    int64 // -1 while the lock is not held
	header *pb.ResponseHeader
}

// NewMutex returns a lock named pfx. Its keys are pfx, a slash and the lease of each
// session in hexadecimal digits. Everything below pfx and the slash counts as a key of
// the lock, so the names of locks must not lie below each other.
func NewMutex(s *Session, pfx string) *Mutex {
	return &Mutex{waiter: newWaiter(s, pfx+"/"), rev: -1}
}

// TryLock takes the lock if it is free or the session has it, and otherwise returns
// [ErrLocked]. It is one request, which leaves nothing behind if the lock is taken.
// Other errors are as with Lock.
func (m *Mutex) TryLock(ctx context.Context) error {
	return m.acquire(ctx, m.waiter.takeFree, func(_ context.Context, v view) (view, error) {
		if v.ahead != nil {
			return view{}, ErrLocked
		}
		return v, nil
	})
}

// Lock waits for the lock in the order of arrival, and returns nil when it was shown
// to be held. It takes one request if the lock is free; otherwise it watches the own key
// and the one ahead, through faults and changes of members, and asks again when one of
// them goes.
//
// The error is that of ctx if it has ended, [ErrSessionExpired] if the session or the own
// key was lost while waiting, and else what the server says, such as
// rpctypes.ErrLeaseNotFound if the lease was gone from the start and
// rpctypes.ErrNoLeader for a context made by [clientv3.WithRequireLeader]. The waiter in
// the queue is then given up, which takes until 3 s after the end of ctx, or the TTL if
// that is shorter, if the cluster does not answer. A mutex that was locked before and
// could not be asked about remains so.
func (m *Mutex) Lock(ctx context.Context) error {
	return m.acquire(ctx, m.waiter.enqueue, m.waiter.await)
}

func (m *Mutex) acquire(
	ctx context.Context,
	enter func(context.Context, string) (view, error), wait func(context.Context, view) (view, error),
) error {
	var won view
	err := m.waiter.campaign(ctx,
		func(ctx context.Context) (view, error) { return enter(ctx, "") },
		func(ctx context.Context, v view) (err error) {
			won, err = wait(ctx, v)
			return err
		})
	switch {
	case err == nil:
		m.key, m.rev, m.header = m.waiter.key, m.waiter.rev, won.header
	case m.waiter.rev == 0:
		m.key, m.rev = releasedKey, -1
	}
	return err
}

// Unlock releases the lock. Of a lock that was lost there is nothing to release, which
// is no error. The error is [ErrLockReleased] for a mutex that is not locked. After any
// other error the lock counts as held, and Unlock may be called again. A Lock of the session
// after that goes to the end of the queue with a new key, if the request may yet delete the
// old one.
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
// never does for a mutex that is not locked.
func (m *Mutex) IsOwner() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(m.key), "=", m.rev)
}

// Key returns the own key of the lock that is held. It is empty before the first Lock.
func (m *Mutex) Key() string { return m.key }

// Header returns the header of the response that showed the lock to be held. Its
// revision is greater than that of every holder before.
func (m *Mutex) Header() *pb.ResponseHeader { return m.header }

// NewLocker returns a lock named pfx as a sync.Locker. Lock and Unlock wait for as long
// as the client is open, and panic with the error that [Mutex.Lock] and [Mutex.Unlock]
// would return. What is said of [Mutex] holds for it: it does not exclude goroutines
// that use the same session.
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
