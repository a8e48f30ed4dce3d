package observe

import (
	"context"
	"time"
)

// Call says how a unary call of the client's API ended. Watches, keepalives and other streams
// are none.
type Call struct {
	Method string // full name
	// Err is what the caller got, nil for success.
	Err error
	// Took is the time from the begin of the call to its end, with all attempts and the
	// pauses between them.
	Took time.Duration
	// Retries are the attempts after the first one, hedges not included.
	Retries int
	// Hedged says that the call was sent to a second endpoint as well.
	Hedged bool
	// Paused is the time between attempts.
	Paused time.Duration
}

// Attempt says how an attempt of a call ended, or a stream.
type Attempt struct {
	Endpoint string
	Method   string // full name
	Lane     Lane
	// Err is what gRPC reported, nil for success. An attempt that was cut, or lost to its
	// hedge, was canceled.
	Err  error
	Took time.Duration
}

// CallObserver is an [Observer] that also hears how every call and attempt ends. Whoever does
// not implement it costs no measurement of time.
type CallObserver interface {
	Observer
	// Called is called when a call has ended.
	Called(Call)
	// Attempted is called when an attempt that was given an endpoint has ended.
	Attempted(Attempt)
}

// Tracer is an [Observer] that follows calls from their begin to their end, in their contexts.
type Tracer interface {
	Observer
	// StartCall is called when a call begins. The context that it returns is that of the
	// attempts; it must be made of the given one. A nil CallTrace leaves the call alone.
	StartCall(ctx context.Context, method string) (context.Context, CallTrace)
}

// CallTrace follows one call. StartAttempt may be called concurrently, and after End: a
// hedge that lost may still be under way then.
type CallTrace interface {
	// StartAttempt is called before an attempt. The context that it returns is the
	// attempt's; it must be made of the given one.
	StartAttempt(ctx context.Context, hedge bool) (context.Context, AttemptTrace)
	// End is called once, when the caller gets the result.
	End(Call)
}

// AttemptTrace follows one attempt.
type AttemptTrace interface {
	// End is called once. The endpoint is "" if none was given.
	End(endpoint string, err error)
}

// Calls returns an observer that tells those of the given one that are CallObservers, and nil
// if there is none. The given one may come from [Multi].
func Calls(o Observer) CallObserver {
	found := each[CallObserver](o)
	switch len(found) {
	case 0:
		return nil
	case 1:
		return found[0]
	default:
		return calls{all: found}
	}
}

// Trace is [Calls] for Tracers.
func Trace(o Observer) Tracer {
	found := each[Tracer](o)
	switch len(found) {
	case 0:
		return nil
	case 1:
		return found[0]
	default:
		return tracers{all: found}
	}
}

// each returns the observers that implement T.
func each[T any](o Observer) []T {
	all, ok := o.(multi)
	if !ok {
		all = multi{o}
	}
	var found []T
	for _, o := range all {
		if t, ok := o.(T); ok {
			found = append(found, t)
		}
	}
	return found
}

type calls struct {
	None
	all []CallObserver
}

func (c calls) Called(e Call) {
	for _, o := range c.all {
		o.Called(e)
	}
}

func (c calls) Attempted(e Attempt) {
	for _, o := range c.all {
		o.Attempted(e)
	}
}

type tracers struct {
	None
	all []Tracer
}

func (t tracers) StartCall(ctx context.Context, method string) (context.Context, CallTrace) {
	var traces callTraces
	for _, o := range t.all {
		next, trace := o.StartCall(ctx, method)
		if trace != nil {
			ctx, traces = next, append(traces, trace) //nolint:fatcontext // as many as there are tracers
		}
	}
	if traces == nil {
		return ctx, nil
	}
	return ctx, traces
}

type callTraces []CallTrace

func (c callTraces) StartAttempt(ctx context.Context, hedge bool) (context.Context, AttemptTrace) {
	traces := make(attemptTraces, 0, len(c))
	for _, trace := range c {
		var t AttemptTrace
		ctx, t = trace.StartAttempt(ctx, hedge) //nolint:fatcontext // as many as there are tracers
		traces = append(traces, t)
	}
	return ctx, traces
}

func (c callTraces) End(e Call) {
	for _, trace := range c {
		trace.End(e)
	}
}

type attemptTraces []AttemptTrace

func (a attemptTraces) End(endpoint string, err error) {
	for _, trace := range a {
		trace.End(endpoint, err)
	}
}
