package balancer

import "time"

// CheckLate fires the timer of the endpoint, late by the given duration.
func (e *Endpoint) CheckLate(late time.Duration) {
	e.inflight.mu.Lock()
	e.inflight.due.Store(int64(momentNow()) - int64(late))
	e.inflight.mu.Unlock()
	e.check()
}

// HoldTimer stops the timer of the endpoint.
func (e *Endpoint) HoldTimer() { e.inflight.timer.Stop() }

// SpendProbes spends the probes of the endpoint's client.
func (e *Endpoint) SpendProbes() {
	for e.policy.prober.budget.take(time.Now(), 0) {
	}
}
