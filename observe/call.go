package observe

import (
	"context"
	"time"
)

// Call is the result of a unary call of the client's API. Watches, keepalives and other
// streams are not reported as calls.
type Call struct {
	Method string // full name
	// Err is the error returned to the caller, nil for success.
	Err error
	// Took is the time from the beginning of the call to its end, with all attempts and
	// the pauses between them.
	Took time.Duration
	// Retries are the attempts after the first one, hedges not included.
	Retries int
	// Hedged is set if the call was also sent to a second endpoint.
	Hedged bool
	// Paused is the time between attempts.
	Paused time.Duration
}

// Attempt is the result of an attempt of a call, or of a stream.
type Attempt struct {
	Endpoint string
	Method   string // full name
	Conn     ConnClass
	// Err is what gRPC reported, nil for success. An attempt that was cut, or lost to its
	// hedge, was canceled.
	Err  error
	Took time.Duration // from the pick to the end
}

// CallObserver is an [Observer] that also receives the result of every call and attempt.
// Without a CallObserver the client does not measure these.
type CallObserver interface {
	Observer
	// Called is called when a call has ended.
	Called(Call)
	// Attempted is called when an attempt with an endpoint has ended.
	Attempted(Attempt)
}

// Tracer is an [Observer] that follows calls from their beginning to their end, in their
// contexts.
type Tracer interface {
	Observer
	// StartCall is called when a call begins. It returns the context of the attempts,
	// which must be derived from ctx. With a nil CallTrace the call is not traced.
	StartCall(ctx context.Context, method string) (context.Context, CallTrace)
}

// CallTrace follows one call. StartAttempt may be called concurrently, and after End: a
// hedge that lost may still be in flight then.
type CallTrace interface {
	// StartAttempt is called before an attempt. It returns the attempt's context, which
	// must be derived from ctx.
	StartAttempt(ctx context.Context, hedge bool) (context.Context, AttemptTrace)
	// End is called once, when the caller gets the result.
	End(Call)
}

// AttemptTrace follows one attempt.
type AttemptTrace interface {
	// End is called once. The endpoint is "" if none was given.
	End(endpoint string, err error)
}

// Calls returns the CallObserver of o, or one that calls all CallObservers in a [Multi]; nil
// if there is none.
func Calls(o Observer) CallObserver {
	return oneOf(Find[CallObserver](o), func(all []CallObserver) CallObserver { return calls{all: all} })
}

// Trace is [Calls] for Tracers.
func Trace(o Observer) Tracer {
	return oneOf(Find[Tracer](o), func(all []Tracer) Tracer { return tracers{all: all} })
}

// oneOf returns nil for none, a single value itself, and what of makes for several.
func oneOf[T any](found []T, of func(all []T) T) (none T) {
	switch len(found) {
	case 0:
		return none
	case 1:
		return found[0]
	default:
		return of(found)
	}
}

// Find returns the observers that implement T: o itself, or members of a [Multi].
func Find[T any](o Observer) []T {
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

func (c calls) Called(e Call)       { each(c.all, CallObserver.Called, e) }
func (c calls) Attempted(e Attempt) { each(c.all, CallObserver.Attempted, e) }

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

func (c callTraces) End(e Call) { each(c, CallTrace.End, e) }

type attemptTraces []AttemptTrace

func (a attemptTraces) End(endpoint string, err error) {
	for _, trace := range a {
		trace.End(endpoint, err)
	}
}
