package balancer

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Need is the service that a call requires of an endpoint.
type Need uint8

const (
	// Full service: the default. For etcd these are writes, linearizable reads, watches
	// and leases, which need a member with a vote and a leader.
	Full Need = iota
	// Local service: what the endpoint can do without its peers. For etcd these are
	// serializable reads.
	Local
)

// ConnClass is the class of connection that a call uses. Classes other than Calls get a
// connection of their own only on demand.
type ConnClass uint8

const (
	// Calls are short: the default.
	Calls ConnClass = iota
	// Streams live long. They share the connection of class Calls until a mebibyte arrives on it within 8 s
	// while one is read, and after that whenever they have none of their own.
	Streams
	// Bulk moves many bytes: snapshots, large ranges. It has a connection of its own.
	Bulk

	classes = int(Bulk) + 1
)

// Attempt controls and records the pick of one attempt of a call. It reaches the policy
// in the context of the attempt, see [WithAttempt]. A call without one is treated like
// the zero Attempt. Its exported fields must not change during the attempt.
type Attempt struct {
	Need Need
	Conn ConnClass
	// Write says that the call may change something, and must not be ended early while its
	// endpoint is alive: see [Options.WriteStallTimeout].
	Write bool
	// Stream says that the attempt opens a stream. It is checked for silence: its owner calls
	// [Attempt.Heard] for each message, perhaps [Attempt.Sending], and the Watcher's Cut is called when the endpoint or the
	// connection can no longer serve it. Its duration does not count as the latency of a call, nor does
	// it count among the calls in flight. A stream of class Calls stays on the connection of calls
	// however many bytes it carries, also while the server closes that gracefully.
	Stream bool
	// Large says that a call of class Calls has a large response: it uses the connection of class
	// Bulk, so that no other response queues behind it.
	Large bool
	// Prompt says that the call writes and takes about as long as a commit, see [Endpoint.ServedInTerm]. It
	// may be set without Write, for a write that may be sent twice.
	Prompt bool
	// AvoidStrictly makes the pick fail with codes.Canceled if Avoid lists every endpoint
	// that can serve the call.
	AvoidStrictly bool
	// Shape names a group of calls with similar latency; "" means the full name of the
	// method. Use few shapes: latency is learnt for each of the first 1,000 only.
	Shape string
	// Avoid lists endpoints that are picked only if no other can serve the call.
	Avoid []*Endpoint
	// Watcher, if set, receives events during the attempt.
	Watcher Watcher

	of      *Attempt // see StandFor
	context attemptContext
	first   call // the record of the first pick

	endpoint atomic.Pointer[Endpoint] // the endpoint of the latest pick
	conn     atomic.Pointer[subConn]  // nil for a detached endpoint
	stream   atomic.Pointer[stream]   // the stream of the latest pick, nil if it is none
	// maySent counts the picks that may have sent something. A pick whose end gRPC does
	// not report counts.
	maySent atomic.Int32
	flags   flags
}

// flags are what has happened to an attempt. They are never cleared.
type flags struct{ set atomic.Uint32 }

const (
	flagBegun    = 1 << iota // Attempt.first is in use
	flagUnpicked             // a pick found no endpoint
	flagAnswered             // a server has sent a part of a response
	flagOver                 // nothing may be picked any more
	flagPinned               // it must not move to another connection
	flagTests                // it tests an endpoint that others are preferred to
	flagRefused              // a server refused the stream of a write
)

func (f *flags) has(flag uint32) bool { return f.set.Load()&flag != 0 }

// add sets a flag, and reports whether it was not set.
func (f *flags) add(flag uint32) bool { return f.set.Or(flag)&flag == 0 }

// Watcher receives events during an attempt. Its methods may be called from any goroutine,
// must not block, and must not call back into the policy.
type Watcher interface {
	// Overdue is called at most once, when the response takes longer than usual for the
	// attempt's shape and another endpoint can serve the call.
	Overdue()
	// Cut is called when the endpoint cannot answer. The attempt should end with reason
	// as its error.
	Cut(reason error)
}

type attemptKey struct{}

// attemptContext is the context of an attempt. It is part of the Attempt and costs no
// allocation.
type attemptContext struct {
	context.Context
	attempt *Attempt
}

func (c *attemptContext) Value(key any) any {
	if key == (attemptKey{}) {
		return c.attempt
	}
	return c.Context.Value(key)
}

// WithAttempt returns a context for one attempt of a call.
func WithAttempt(ctx context.Context, a *Attempt) context.Context {
	c := &a.context
	if c.attempt != nil {
		c = new(attemptContext) // the Attempt is reused
	}
	c.Context, c.attempt = ctx, a
	return c
}

// StandFor makes a new attempt stand for other, the attempt of a caller, as an interceptor does that makes
// attempts of its own: the new attempt takes over the properties of the call, other records what happens,
// and the Watchers of both are called. It has no effect if other is nil.
func (a *Attempt) StandFor(other *Attempt) {
	if other == nil {
		return
	}
	a.of = other
	a.Need, a.Conn, a.Write, a.Stream, a.Large, a.Prompt = other.Need, other.Conn, other.Write, other.Stream, other.Large, other.Prompt
	a.Shape, a.Avoid, a.AvoidStrictly = other.Shape, other.Avoid, other.AvoidStrictly
}

// AttemptFrom returns the Attempt in a context, nil if there is none.
func AttemptFrom(ctx context.Context) *Attempt {
	if c, ok := ctx.(*attemptContext); ok {
		return c.attempt
	}
	a, _ := ctx.Value(attemptKey{}).(*Attempt)
	return a
}

// Endpoint returns the endpoint of the latest pick, nil if there is none.
func (a *Attempt) Endpoint() *Endpoint { return a.endpoint.Load() }

// Began returns when the attempt's first pick was made, for its [Watcher].
func (a *Attempt) Began() time.Time { return a.first.start.Time() }

// MaySent reports whether any part of the attempt may have been sent. An attempt that
// never reached a policy of this package counts as sent.
func (a *Attempt) MaySent() bool {
	return a.maySent.Load() > 0 || a.endpoint.Load() == nil && !a.flags.has(flagUnpicked)
}

// Answered reports whether a server has sent any part of a response.
func (a *Attempt) Answered() bool { return a.flags.has(flagAnswered) }

// End makes all later picks of the attempt fail, so that the result of MaySent is final.
func (a *Attempt) End() { a.flags.add(flagOver) }

// Pin ties a stream to the connection it was opened on. gRPC would move a stream that no
// server has seen to another connection, and block senders on the stream meanwhile. A
// pinned stream ends instead.
func (a *Attempt) Pin() { a.flags.add(flagPinned) }

// These errors carry a status so that gRPC does not queue the call for another pick.
var (
	errOver    = status.Error(codes.Canceled, "this attempt of the call is over")
	errPinned  = status.Error(codes.Unavailable, "the connection was lost before the server received the stream")
	errRefused = status.Error(codes.Unavailable, "the server refused the stream (REFUSED_STREAM), perhaps after it had executed the write")
	errNoOther = status.Error(codes.Canceled, "there is no other endpoint for this attempt")
)

// Picked records a pick. An error ends the attempt. The policy calls it; tests that stand
// in for one may.
func (a *Attempt) Picked(ep *Endpoint) error {
	a.maySent.Add(1)
	if a.flags.set.Load()&flagBegun == 0 && a.flags.add(flagBegun) { // no policy made a record
		a.first.start = momentNow()
	}
	a.endpoint.Store(ep)
	if a.of != nil {
		if err := a.of.Picked(ep); err != nil {
			return err
		}
	}
	switch set := a.flags.set.Load(); {
	case set&flagOver != 0:
		return errOver
	case set&flagPinned != 0:
		return errPinned
	default:
		return nil
	}
}

// NotPicked records that there is no endpoint now. The policy calls it; tests that stand
// in for one may.
func (a *Attempt) NotPicked() {
	a.flags.add(flagUnpicked)
	if a.flags.has(flagPinned) && a.Watcher != nil {
		a.Watcher.Cut(errPinned)
	}
	if a.of != nil {
		a.of.NotPicked()
	}
}

// Ended records the end of a pick: sent is false if it is certain that nothing was sent.
// The policy calls it; tests that stand in for one may.
func (a *Attempt) Ended(sent bool) {
	if !sent {
		a.maySent.Add(-1)
	}
	if a.of != nil {
		a.of.Ended(sent)
	}
}

// answered records that a server has sent a part of a response.
func (a *Attempt) answered() {
	for ; a != nil; a = a.of {
		a.flags.add(flagAnswered)
	}
}

// class returns the class that the attempt counts in: a stream on the connection of calls is no call.
func (a *Attempt) class() ConnClass {
	if a.Stream && a.Conn == Calls {
		return Streams
	}
	return a.Conn
}

// watchers calls do for the Watchers of the attempt, and of the one that it stands for.
func (a *Attempt) watchers(do func(Watcher)) {
	for ; a != nil; a = a.of {
		if a.Watcher != nil {
			do(a.Watcher)
		}
	}
}

// cut calls the Watchers.
func (a *Attempt) cut(reason error) { a.watchers(func(w Watcher) { w.Cut(reason) }) }

// overdue calls the Watchers.
func (a *Attempt) overdue() { a.watchers(Watcher.Overdue) }
