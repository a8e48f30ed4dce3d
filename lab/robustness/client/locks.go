package client

import (
	"context"
	"errors"

	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// ErrLocked is returned by Handle.Acquire when TryLock finds the lock held by another
// session.
var ErrLocked = errors.New("held by another session")

// Locker is the client of one contender, whose locks are under test.
type Locker interface {
	// Session grants a lease of ttl seconds and keeps it alive. The session ends with
	// ctx, as if it had been orphaned.
	Session(ctx context.Context, ttl int) (Session, error)
	// Close ends the client and its sessions, as the end of a program does: leases
	// are left to expire.
	Close() error
}

// Session is a lease that is kept alive. Its methods, and their guarantees, are
// those of the client's own session.
type Session interface {
	// Lease returns the ID of the lease.
	Lease() int64
	// Done is closed when the client no longer keeps the lease alive.
	Done() <-chan struct{}
	// Orphan ends the renewals and leaves the lease to expire.
	Orphan()
	// Close ends the renewals and revokes the lease.
	Close() error
	// Handle returns a mutex, or for [lockcheck.Campaign] an election, of a name.
	Handle(style lockcheck.Style, name string) Handle
}

// Handle is the client's own mutex or election. It is used by one goroutine at a
// time.
type Handle struct {
	// Acquire calls Lock, TryLock or Campaign.
	Acquire func(ctx context.Context) error
	// Release calls Unlock or Resign.
	Release func(ctx context.Context) error
	// Guard returns the guard that the client has for what Acquire acquired.
	Guard func() Guard
}

// Guard is a client's proof that it holds a lock, as it was at one moment. It may be
// used long after it has become untrue.
type Guard struct {
	// Claim that the guard compares.
	Claim lockcheck.Claim
	// Write puts a key in a txn under the guard. It returns whether the guard held
	// and the revision of the response.
	Write func(ctx context.Context, key, value string) (accepted bool, revision int64, err error)
}
