package observe

import "github.com/quorate/quorate/health"

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
