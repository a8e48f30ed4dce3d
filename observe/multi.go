package observe

import "github.com/quorate/quorate/health"

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
