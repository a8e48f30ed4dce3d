// Package client has the interfaces that the lab needs of an etcd client. Its packages quorate and official implement them with
// the same source, client.go, of which official has a copy that `go generate` makes.
package client

//go:generate go test -run TestCopies . -update

import (
	"context"
	"crypto/tls"
	"errors"
	"iter"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// Target is what a client connects to.
type Target struct {
	Endpoints []string
	// TLS is nil for members that serve without.
	TLS *tls.Config
}

// KV makes the operations of package model.
type KV interface {
	// Do makes one operation on the keys of a group, whose names it is given.
	Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error)
}

// Watcher opens the watches of a client.
type Watcher interface {
	// Watch begins a watch and returns what its reader takes from the channel,
	// response by response, until the channel is closed. The time of arrival is left
	// for the reader to fill in. The end of ctx ends the watch; a reader that stops
	// before the last response must end it.
	Watch(ctx context.Context, req history.WatchRequest) iter.Seq[history.WatchResponse]
}

// Lessor grants and keeps the leases of a client.
type Lessor interface {
	// Grant creates a lease and returns its id and the time to live that the server
	// chose, which may be longer than the one asked for.
	Grant(ctx context.Context, ttl time.Duration) (id int64, granted time.Duration, err error)
	// Attach writes a key that goes when the lease does.
	Attach(ctx context.Context, id int64, key, value string) error
	// KeepAlive keeps a lease alive and returns, for each answer, until when the
	// client claims the lease to live. If the client ends the keepalive with a reason,
	// that comes last, as an error. The end of ctx ends it too; a reader that stops
	// before must end ctx.
	KeepAlive(ctx context.Context, id int64) iter.Seq2[time.Time, error]
}

// Connection is how a load reaches a cluster.
type Connection struct {
	KV KV
	// Without a Watcher the load watches nothing, without a Lessor it keeps no leases.
	Watcher Watcher
	Lessor  Lessor
	// RequireLeader says that every watch is to end when its member has no leader.
	RequireLeader bool
	// Close ends the connection.
	Close func() error
}

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

// Do makes an operation, of which Client and Request are set, and returns it complete, with the error of the client.
func Do(ctx context.Context, kv KV, keys [model.Keys]string, op model.Operation, now func() time.Duration) (model.Operation, error) {
	op.Call = now()
	response, err := kv.Do(ctx, keys, op.Request)
	op.Return = now()
	op.Response, op.Outcome = response, history.OutcomeOf(op.Request.Kind.Writes(), err)
	if err != nil {
		op.Err = err.Error()
	}
	return op, err
}

// Read makes a watch, passes each response on, and returns the watch when its channel is closed. A watch that the end of ctx
// ended counts as open.
func Read(ctx context.Context, w Watcher, request history.WatchRequest, now func() time.Duration, took func(history.WatchResponse)) history.Watch {
	watch := history.Watch{Request: request, End: history.EndedByItself}
	responses := w.Watch(ctx, request)
	watch.Returned = now()
	failed := false
	for response := range responses {
		response.At = now()
		watch.Responses = append(watch.Responses, response)
		failed = failed || response.IsTerminal()
		took(response)
	}
	if ctx.Err() != nil && !failed { // a watch that has failed did so whatever happened then
		watch.End = history.StillOpen
	}
	watch.Ended = now()
	return watch
}
