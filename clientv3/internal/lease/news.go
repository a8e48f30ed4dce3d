package lease

import "time"

// Renewal is an answer that prolonged a lease whose end was known.
type Renewal struct {
	ID int64
	// Margin is the time that was left when the answer came, negative if none was. It
	// counts from when the request was sent that was answered before this one.
	Margin time.Duration
	// TTL is for how long the lease was prolonged, from when the request was sent.
	TTL time.Duration
}

// Loss is a lease that had keepers and is gone, or may be.
type Loss struct {
	ID int64
	// Err is what the keepers were told: rpctypes.ErrLeaseNotFound or ErrUnanswered.
	Err error
}

// margin returns how much time is left to a lease, and false if that is not known.
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

// report passes on what was lost, without the lock.
func (e *Engine) report(lost []Loss) {
	if e.config.Lost == nil {
		return
	}
	for _, l := range lost {
		e.config.Lost(l)
	}
}

// reportRenewal passes on a renewal, without the lock.
func (e *Engine) reportRenewal(r Renewal, known bool) {
	if known && e.config.Renewed != nil {
		e.config.Renewed(r)
	}
}
