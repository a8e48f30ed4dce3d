package observe

import (
	"context"
	"time"

	"github.com/quorate/quorate/health"
)

// Observer receives the events of a client. Its methods are called by the goroutines of
// calls, streams and probes, so they must be safe for concurrent use. They must return at
// once, because they block that work, and must not call the client.
//
// StateChanged, Ejected and Readmitted are called one at a time and in order, by a goroutine of
// their own, so perhaps a little after the event, and even after the client is closed. If they
// block until 1,000 events wait, or two for each endpoint if that is more, further ones are dropped;
// an etcd client logs how many. Other events may be reordered.
//
// Implementations must embed [None] for methods that they do not implement. New versions
// may add methods; types that embed None still compile.
type Observer interface {
	// EndpointsSet is called with all endpoints when the client is created and whenever
	// they are replaced, and with none when it is closed. The observer must not modify
	// the slice.
	EndpointsSet(endpoints []string)
	// Resolved is called when a resolver updates a channel with a list of endpoints or an error.
	// An etcd client without a custom resolver does not call it.
	Resolved(Resolution)
	// Picked is called for each attempt of a call and each opening of a stream, after the
	// pick and before anything is sent. It is on the hot path of every call.
	Picked(Pick)

	// StateChanged is called for each change of an endpoint's state.
	StateChanged(health.Change)
	// Ejected is called when an endpoint is no longer used because of its state: at once, or, if it is suspected or
	// slow, after 30 s in which others serve, unless many of its calls failed or were late. If no better endpoint
	// is left, endpoints are used in any state, and none is ejected.
	Ejected(Ejection)
	// Readmitted is called when an ejected endpoint is used again.
	Readmitted(Readmission)

	// Retried is called before the pause when a failed call is to be repeated, or a
	// failed stream is to be reopened.
	Retried(Retry)
	// FailedOver is called when a call or stream that failed at one endpoint is sent to
	// another one.
	FailedOver(Failover)
	// HedgeSent is called when a read is sent to a second endpoint because the response
	// of the first takes longer than usual.
	HedgeSent(Hedge)
	// HedgeWon is called when the second endpoint's response was used.
	HedgeWon(Hedge)
	// OutcomeUnknown is called when a write ends with an error although it may have been
	// executed: the caller gets a *retry.UnknownOutcomeError or an equivalent server
	// error.
	OutcomeUnknown(UnknownOutcome)

	// WatchResumed is called when the watches of a broken stream resume on another one.
	WatchResumed(WatchResumption)
	// LeaseRenewed is called for each response that renews a lease with a known expiry.
	// The first response for a lease that the client neither granted nor renewed before
	// has no margin and is not reported.
	LeaseRenewed(LeaseRenewal)
	// LeaseLost is called when a lease under keepalive has ended, or may have: the server
	// returned that it does not exist, or its TTL passed without a response.
	LeaseLost(LeaseLoss)

	mustEmbedNone()
}

// None is an [Observer] that does nothing. Observers embed it.
type None struct{}

var _ Observer = None{}

// EndpointsSet does nothing.
func (None) EndpointsSet([]string) {}

// Resolved does nothing.
func (None) Resolved(Resolution) {}

// Picked does nothing.
func (None) Picked(Pick) {}

// StateChanged does nothing.
func (None) StateChanged(health.Change) {}

// Ejected does nothing.
func (None) Ejected(Ejection) {}

// Readmitted does nothing.
func (None) Readmitted(Readmission) {}

// Retried does nothing.
func (None) Retried(Retry) {}

// FailedOver does nothing.
func (None) FailedOver(Failover) {}

// HedgeSent does nothing.
func (None) HedgeSent(Hedge) {}

// HedgeWon does nothing.
func (None) HedgeWon(Hedge) {}

// OutcomeUnknown does nothing.
func (None) OutcomeUnknown(UnknownOutcome) {}

// WatchResumed does nothing.
func (None) WatchResumed(WatchResumption) {}

// LeaseRenewed does nothing.
func (None) LeaseRenewed(LeaseRenewal) {}

// LeaseLost does nothing.
func (None) LeaseLost(LeaseLoss) {}

func (None) mustEmbedNone() {}

// Multi returns an observer that calls each of the given ones, in order. It skips nil and
// bare [None] observers, and returns nil if there are no others.
func Multi(observers ...Observer) Observer {
	var all multi
	for _, o := range observers {
		switch o := o.(type) {
		case nil, None:
		case multi:
			all = append(all, o...)
		default:
			all = append(all, o)
		}
	}
	return oneOf(all, func(all []Observer) Observer { return multi(all) })
}

type multi []Observer

// each calls a method of all.
func each[O, E any](all []O, method func(O, E), event E) {
	for _, o := range all {
		method(o, event)
	}
}

func (m multi) EndpointsSet(endpoints []string) { each(m, Observer.EndpointsSet, endpoints) }
func (m multi) Resolved(e Resolution)           { each(m, Observer.Resolved, e) }
func (m multi) Picked(e Pick)                   { each(m, Observer.Picked, e) }
func (m multi) StateChanged(e health.Change)    { each(m, Observer.StateChanged, e) }
func (m multi) Ejected(e Ejection)              { each(m, Observer.Ejected, e) }
func (m multi) Readmitted(e Readmission)        { each(m, Observer.Readmitted, e) }
func (m multi) Retried(e Retry)                 { each(m, Observer.Retried, e) }
func (m multi) FailedOver(e Failover)           { each(m, Observer.FailedOver, e) }
func (m multi) HedgeSent(e Hedge)               { each(m, Observer.HedgeSent, e) }
func (m multi) HedgeWon(e Hedge)                { each(m, Observer.HedgeWon, e) }
func (m multi) OutcomeUnknown(e UnknownOutcome) { each(m, Observer.OutcomeUnknown, e) }
func (m multi) WatchResumed(e WatchResumption)  { each(m, Observer.WatchResumed, e) }
func (m multi) LeaseRenewed(e LeaseRenewal)     { each(m, Observer.LeaseRenewed, e) }
func (m multi) LeaseLost(e LeaseLoss)           { each(m, Observer.LeaseLost, e) }

func (multi) mustEmbedNone() {}

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
		var trace CallTrace
		if ctx, trace = o.StartCall(ctx, method); trace != nil {
			traces = append(traces, trace)
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
