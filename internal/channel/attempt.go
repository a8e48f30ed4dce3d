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
	// Attempt is the balancer's record: the endpoint of the attempt, and whether any part
	// of it may have been sent.
	balancer.Attempt

	ctx    context.Context // ends with the caller's, and when the attempt is cut
	cancel context.CancelCauseFunc
	caller context.Context // the caller's

	// call is the call to hedge when this attempt is overdue, nil for none.
	call *call
	// from is the failure before this attempt, nil if there is none.
	from *failure
	// anonymous attempts carry no token: Authenticate itself.
	anonymous bool
	marks     atomic.Uint32 // markQuiet, markInsecure, markOwn
	token     atomic.Pointer[token]
	// called is set when the interceptors of the program have called, and executions counts
	// their calls that may have been executed: they may call more than once, and return any error.
	called     atomic.Bool
	executions atomic.Int32

	trace observe.AttemptTrace // nil if there is no Tracer
}

const (
	markQuiet    = 1 << iota // its stream was quiet when it ended
	markInsecure             // its endpoint gets no secrets, because the connection is not secure
	markOwn                  // the program opened its stream itself, on [Channel.Conn]
)

var _ balancer.Watcher = (*attempt)(nil)

// start starts an attempt with the given context. The caller must call release when the
// attempt has ended.
func (c *client) start(ctx context.Context, a *attempt, p *properties) {
	if t := c.tokens.current.Load(); t != nil && !a.anonymous {
		c.tokens.avoid(a, t)
	}
	a.Need, a.Conn, a.Shape, a.Write, a.Prompt, a.Large, a.Watcher = p.need, p.conn, p.shape, p.write, p.prompt, p.large, a
	if a.caller == nil {
		a.caller = ctx
	}
	ctx, a.cancel = context.WithCancelCause(ctx)
	a.ctx = balancer.WithAttempt(ctx, &a.Attempt)
}

// release cancels the attempt's context and frees its resources.
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

// evidence ends the attempt and returns its evidence for package retry.
func (a *attempt) evidence(method string) retry.Evidence {
	a.End()
	return retry.Evidence{Sent: a.MaySent(), Answered: a.Answered(), ContextErr: a.ended(), Method: method}
}

// outcome returns the evidence and the error of a failed attempt. The error of a cut
// attempt is the reason for the cut, unless the server had answered: gRPC's own error
// looks as if the caller had cancelled.
func (a *attempt) outcome(method string, err error) (retry.Evidence, error) {
	ev := a.evidence(method)
	reason := a.cutReason()
	if reason == nil {
		return ev, err
	}
	if class := retry.Classify(err, ev); class == retry.Ambiguous || class == retry.NotSent {
		return ev, &cutError{reason}
	}
	return ev, err
}

// cutReason returns why the attempt was cut; nil if it was not, or if the caller's
// context ended first.
func (a *attempt) cutReason() error {
	reason := context.Cause(a.ctx)
	if a.caller.Err() == nil && !errors.Is(reason, context.Canceled) {
		return reason
	}
	return nil
}

// lateTimer bounds the wait for a context whose deadline has passed.
const lateTimer = time.Second

// ended returns the error of the caller's context if it has ended. The server enforces
// the same deadline, and its response may arrive before the context's timer fires: that
// too counts as the end of the context.
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

// endpoint returns the attempt's endpoint, nil if there is none.
func (a *attempt) endpoint() *balancer.Endpoint {
	if a == nil {
		return nil
	}
	return a.Endpoint()
}

// unsent reports whether it is certain that nothing was sent.
func (a *attempt) unsent() bool { return a != nil && !a.MaySent() }

// keptSecret reports whether nothing was sent, because the request or its token is a secret.
func (a *attempt) keptSecret() bool { return a.unsent() && a.marks.Load()&markInsecure != 0 }

// usedToken returns the token that the attempt carried, nil if unknown.
func (a *attempt) usedToken() *token {
	if a == nil {
		return nil
	}
	return a.token.Load()
}
