package lease

import "time"

// Renewal is an answer that renewed a lease with a known expiry.
type Renewal struct {
	ID int64
	// Margin is the time that the lease had left when the answer arrived, negative if
	// it had expired. It counts from the send time of the previously answered
	// request.
	Margin time.Duration
	// TTL is the renewed TTL, counted from the send time of the request.
	TTL time.Duration
}

// Loss is a lease with keepers that is gone, or may be.
type Loss struct {
	ID int64
	// Err is the keepers' error: rpctypes.ErrLeaseNotFound or ErrUnanswered.
	Err error
}

// margin returns how much time a lease has left, and false if unknown.
func (m *Machine) margin(l *entry) (time.Duration, bool) {
	if l.ttl <= 0 {
		return 0, false
	}
	return l.renewed.add(l.ttl).sub(m.now), true
}

// TakeLost returns the leases that were lost since the last call.
func (m *Machine) TakeLost() []Loss {
	lost := m.lost
	m.lost = nil
	return lost
}

// report calls Lost for the lost leases, without the lock.
func (e *Engine) report(lost []Loss) {
	if e.config.Lost == nil {
		return
	}
	for _, l := range lost {
		e.config.Lost(l)
	}
}

// reportRenewal calls Renewed, without the lock.
func (e *Engine) reportRenewal(r Renewal, known bool) {
	if known && e.config.Renewed != nil {
		e.config.Renewed(r)
	}
}
