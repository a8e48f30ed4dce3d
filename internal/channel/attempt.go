package channel

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/retry"
)

// attempt is the record of one attempt of a call or one opening of a stream.
// It travels down to the balancer and to the call credentials as the attempt's
// context, and comes back with what they saw: where the attempt went, with
// which token, and whether anything of it can have left this process. The
// balancer can end it in between.
//
// Its fields are atomic because picks and ends may happen on goroutines of
// grpc's, or of an interceptor that did not wait for its call.
type attempt struct {
	// Attempt is what the balancer reads. It is not changed while the attempt lasts.
	balancer.Attempt

	// Context ends with the caller's, and when the attempt is given up.
	context.Context
	cancel context.CancelCauseFunc
	caller context.Context

	// call is the one that is hedged when this attempt is overdue, nil if none is.
	call *call
	// moved, if set, is told where the attempt went first.
	moved func(to *balancer.Endpoint)
	// anonymous attempts carry no token: Authenticate itself.
	anonymous bool

	// picked is the endpoint of the latest pick.
	picked atomic.Pointer[balancer.Endpoint]
	// maySent counts the picks that are not known to have ended before a
	// stream was created. A pick of whose end grpc tells nothing counts: it
	// does not for a response of two messages where one is due, for instance.
	maySent atomic.Int32
	// over is set when the attempt is judged: from then on nothing is picked
	// for it, so that "not sent" stays true.
	over atomic.Bool
	// opened is set for a stream that stays where it was opened.
	opened atomic.Bool
	token  atomic.Pointer[token]
	// idle is set when a stream has ended that was idle.
	idle atomic.Bool

	queued queued // among the writes under way
}

// start makes the attempt one of the caller with the given context. Whoever calls
// it calls release when the attempt has ended.
//
// The context of its own costs five allocations in some hundred that a call
// makes. An AfterFunc of the record's would cost seven, because grpc's context
// and the caller's must be tied to it one by one.
func (a *attempt) start(ctx context.Context, t traits) {
	a.Need, a.Lane, a.Class, a.Observer = t.need, t.lane, t.class, a
	a.caller = ctx
	a.Context, a.cancel = context.WithCancelCause(ctx)
}

// release frees what start tied to the caller's context. What is still under way
// of the attempt ends.
func (a *attempt) release() {
	a.over.Store(true)
	a.cancel(nil)
}

var (
	_ context.Context   = (*attempt)(nil)
	_ balancer.Observer = (*attempt)(nil)
)

type attemptKey struct{}

// Value makes the record its own context value, for the balancer as well, which
// saves two allocations on every call.
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	if balancer.IsAttemptKey(key) {
		return &a.Attempt
	}
	return a.Context.Value(key)
}

func attemptFrom(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// noEndpoint is recorded for an attempt that asked for an endpoint and has not
// been given one.
var noEndpoint = balancer.Detached("", nil)

// errOver ends a call that nobody waits for any more. It carries a status so
// that grpc does not queue the call for another pick.
var errOver = status.Error(codes.Canceled, "this attempt of the call is over")

// errStays ends a stream that grpc would move to another connection, because no
// server has seen it. Its owner opens another one. While grpc waits for a connection
// to move a stream to it holds a lock that whoever sends on the stream waits for, be
// their contexts over or not.
var errStays = status.Error(codes.Unavailable, "the connection was lost before the server saw the stream")

// Picked implements balancer.Observer.
func (a *attempt) Picked(ep *balancer.Endpoint) error {
	before := a.picked.Swap(ep)
	a.maySent.Add(1)
	if a.over.Load() {
		return errOver
	}
	if a.opened.Load() {
		return errStays
	}
	if a.moved != nil && (before == nil || before == noEndpoint) {
		a.moved(ep)
	}
	return nil
}

// NotPicked implements balancer.Observer.
func (a *attempt) NotPicked() {
	a.picked.CompareAndSwap(nil, noEndpoint)
	if a.opened.Load() {
		a.cancel(errStays)
	}
}

// Ended implements balancer.Observer.
func (a *attempt) Ended(sent bool) {
	if !sent {
		a.maySent.Add(-1)
	}
}

// Overdue implements balancer.Observer.
func (a *attempt) Overdue() {
	if a.call != nil {
		a.call.hedge(a)
	}
}

// Cut implements balancer.Observer: the attempt ends at once, with the reason.
func (a *attempt) Cut(reason error) { a.cancel(reason) }

// evidence ends the attempt and tells the error handler what is known of it.
// An attempt that was not picked by our policy counts as sent: nothing is
// known of it.
func (a *attempt) evidence(method string) retry.Evidence {
	a.over.Store(true)
	return retry.Evidence{
		Sent:       a.maySent.Load() > 0 || a.picked.Load() == nil,
		ContextErr: a.ended(),
		Method:     method,
	}
}

// outcome returns the evidence of an attempt that failed, and the error that it
// failed with. That of one that was cut is the reason for it, unless its server
// had spoken: what grpc has to say of it looks as if the caller had given up.
func (a *attempt) outcome(method string, err error) (retry.Evidence, error) {
	ev := a.evidence(method)
	reason := a.cutReason()
	if reason == nil {
		return ev, err
	}
	switch retry.Classify(err, ev) {
	case retry.Ambiguous, retry.NotSent:
		return ev, &givenUpError{status.Convert(reason).Message()}
	default:
		return ev, err
	}
}

// cutReason returns why the attempt was cut, nil if it was not, or if its caller's
// end came before it was judged.
func (a *attempt) cutReason() error {
	reason := context.Cause(a.Context)
	if a.caller.Err() == nil && !errors.Is(reason, context.Canceled) {
		return reason
	}
	return nil
}

// lateTimer bounds the wait for a context whose deadline has passed.
const lateTimer = time.Second

// ended returns the error of the caller's context if it has ended. The server
// counts the same deadline down, and under load its answer that the deadline
// has passed is here before the context's timer has run: that is still the end
// of the context.
func (a *attempt) ended() error {
	if err := a.caller.Err(); err != nil {
		return err
	}
	if end, ok := a.caller.Deadline(); !ok || time.Now().Before(end) {
		return nil
	}
	select {
	case <-a.caller.Done():
	case <-time.After(lateTimer):
	}
	return a.caller.Err()
}

// endpoint returns the endpoint that the attempt went to, nil if there is none.
func (a *attempt) endpoint() *balancer.Endpoint {
	if a == nil {
		return nil
	}
	ep := a.picked.Load()
	if ep == noEndpoint {
		return nil
	}
	return ep
}

// usedToken returns the token that the attempt carried, nil if that is not known.
func (a *attempt) usedToken() *token {
	if a == nil {
		return nil
	}
	return a.token.Load()
}
