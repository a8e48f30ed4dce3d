package channel

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// attempt is one attempt of a call or one opening of a stream. The balancer finds its
// record in the attempt's context, and the call credentials find the attempt there.
//
// Its fields are atomic where they may be written by goroutines of grpc's, or of an
// interceptor that did not wait for its call.
type attempt struct {
	// Attempt is what the balancer reads and records: where the attempt went, and
	// whether anything of it can have left this process.
	balancer.Attempt

	ctx    context.Context // ends with the caller's, and when the attempt is cut
	cancel context.CancelCauseFunc
	caller context.Context

	// call is the one that is hedged when this attempt is overdue, nil if none is.
	call *call
	// from is the failure that this attempt follows.
	from failure
	// anonymous attempts carry no token: Authenticate itself.
	anonymous bool
	token     atomic.Pointer[token]
	// quiet is set when a stream has ended that was quiet.
	quiet atomic.Bool

	queued queued // among the writes in flight

	trace observe.AttemptTrace // nil if nobody follows the attempt
}

var _ balancer.Watcher = (*attempt)(nil)

// start makes the attempt one of the caller with the given context. Whoever calls it
// calls release when the attempt has ended.
func (a *attempt) start(ctx context.Context, p properties) {
	a.Need, a.Conn, a.Shape, a.Write, a.Watcher = p.need, p.conn, p.shape, p.write, a
	a.caller = ctx
	ctx, a.cancel = context.WithCancelCause(ctx)
	a.ctx = balancer.WithAttempt(ctx, &a.Attempt)
}

// release frees what start tied to the caller's context. What is still in flight of the
// attempt ends.
func (a *attempt) release() {
	a.End()
	a.cancel(nil)
}

// attemptFrom returns the attempt in a context, nil if there is none.
func attemptFrom(ctx context.Context) *attempt {
	record := balancer.AttemptFrom(ctx)
	if record == nil {
		return nil
	}
	a, _ := record.Watcher.(*attempt)
	return a
}

// Overdue implements balancer.Watcher.
func (a *attempt) Overdue() {
	if a.call != nil {
		a.call.hedge(a)
	}
}

// Cut implements balancer.Watcher: the attempt ends at once, with the reason.
func (a *attempt) Cut(reason error) { a.cancel(reason) }

// evidence ends the attempt and returns what the error handler needs to know of it.
func (a *attempt) evidence(method string) retry.Evidence {
	a.End()
	return retry.Evidence{Sent: a.MaySent(), Answered: a.Answered(), ContextErr: a.ended(), Method: method}
}

// outcome returns the evidence of an attempt that failed, and the error that it failed
// with. That of one that was cut is the reason for it, unless its server had answered:
// grpc's own error looks as if the caller had given up.
func (a *attempt) outcome(method string, err error) (retry.Evidence, error) {
	ev := a.evidence(method)
	reason := a.cutReason()
	if reason == nil {
		return ev, err
	}
	switch retry.Classify(err, ev) {
	case retry.Ambiguous, retry.NotSent:
		return ev, &cutError{reason}
	default:
		return ev, err
	}
}

// cutReason returns why the attempt was cut, nil if it was not, or if its caller's end
// came first.
func (a *attempt) cutReason() error {
	reason := context.Cause(a.ctx)
	if a.caller.Err() == nil && !errors.Is(reason, context.Canceled) {
		return reason
	}
	return nil
}

// lateTimer bounds the wait for a context whose deadline has passed.
const lateTimer = time.Second

// ended returns the error of the caller's context if it has ended. The server counts the
// same deadline down, and its answer may arrive before the context's timer has run: that
// is still the end of the context.
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
	return a.Endpoint()
}

// usedToken returns the token that the attempt carried, nil if that is not known.
func (a *attempt) usedToken() *token {
	if a == nil {
		return nil
	}
	return a.token.Load()
}
