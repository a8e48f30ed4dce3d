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
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	default:
		return all
	}
}

type multi []Observer

func (m multi) EndpointsSet(endpoints []string) {
	for _, o := range m {
		o.EndpointsSet(endpoints)
	}
}

func (m multi) Resolved(e Resolution) {
	for _, o := range m {
		o.Resolved(e)
	}
}

func (m multi) Picked(e Pick) {
	for _, o := range m {
		o.Picked(e)
	}
}

func (m multi) StateChanged(e health.Change) {
	for _, o := range m {
		o.StateChanged(e)
	}
}

func (m multi) Ejected(e Ejection) {
	for _, o := range m {
		o.Ejected(e)
	}
}

func (m multi) Readmitted(e Readmission) {
	for _, o := range m {
		o.Readmitted(e)
	}
}

func (m multi) Retried(e Retry) {
	for _, o := range m {
		o.Retried(e)
	}
}

func (m multi) FailedOver(e Failover) {
	for _, o := range m {
		o.FailedOver(e)
	}
}

func (m multi) HedgeSent(e Hedge) {
	for _, o := range m {
		o.HedgeSent(e)
	}
}

func (m multi) HedgeWon(e Hedge) {
	for _, o := range m {
		o.HedgeWon(e)
	}
}

func (m multi) OutcomeUnknown(e UnknownOutcome) {
	for _, o := range m {
		o.OutcomeUnknown(e)
	}
}

func (m multi) WatchResumed(e WatchResumption) {
	for _, o := range m {
		o.WatchResumed(e)
	}
}

func (m multi) LeaseRenewed(e LeaseRenewal) {
	for _, o := range m {
		o.LeaseRenewed(e)
	}
}

func (m multi) LeaseLost(e LeaseLoss) {
	for _, o := range m {
		o.LeaseLost(e)
	}
}

func (multi) mustEmbedNone() {}
