package observe

import "github.com/quorate/quorate/health"

// Observer is told what a client does and finds. Its methods are called by the
// goroutines that carry calls, streams and probes, at the same time as each other, so
// they must be safe for concurrent use. They must return at once: what they do not
// return from does not go on. They must not call the client.
//
// Events of one endpoint's state come in the order in which they happened; nothing else
// is promised of the order.
//
// Implementations embed [None], which implements what they do not. Methods may be added
// to the interface; those who embed None compile with each version.
type Observer interface {
	// EndpointsSet is called with all endpoints of the client when it is made, whenever
	// they are replaced, and with none when it is closed. The slice must not be changed.
	EndpointsSet(endpoints []string)
	// Resolved is called when a resolver has told a channel a list of endpoints, or an error. An
	// etcd client without a resolver of the user's does not call it.
	Resolved(Resolution)
	// Picked is called for each attempt of a call and each opening of a stream that was
	// given an endpoint, before anything is sent. It is on the way of every call.
	Picked(Pick)

	// StateChanged is called with each change of what is held of an endpoint.
	StateChanged(health.Change)
	// Ejected is called when an endpoint that is in a state in which it should not be used
	// is not used any more. Where nothing better is left endpoints are used in any state,
	// and none is ejected.
	Ejected(Ejection)
	// Readmitted is called when an endpoint that was ejected is used again.
	Readmitted(Readmission)

	// Retried is called when a call that failed is about to be made again, and when a
	// stream that failed is about to be opened again, before the pause.
	Retried(Retry)
	// FailedOver is called when a call or stream that failed at one endpoint was given
	// another one.
	FailedOver(Failover)
	// HedgeSent is called when a read is sent to a second endpoint because the answer of
	// the first takes longer than usual.
	HedgeSent(Hedge)
	// HedgeWon is called when the second endpoint's answer was the one that was used.
	HedgeWon(Hedge)
	// OutcomeUnknown is called when a write ends with an error although it may have been
	// executed: the caller gets a *retry.UnknownOutcomeError or an equivalent error of the
	// server's.
	OutcomeUnknown(UnknownOutcome)

	// WatchResumed is called when the watches of a stream that broke go on on another one.
	WatchResumed(WatchResumption)
	// LeaseRenewed is called with each answer that prolongs a lease whose end was known.
	// The first answer for a lease that the client neither granted nor renewed before has
	// no margin, and is left out.
	LeaseRenewed(LeaseRenewal)
	// LeaseLost is called when a lease that was to be kept alive has ended, or may have:
	// the server says that there is no such lease, or its time has passed unanswered.
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
