package balancer

import (
	"time"

	"github.com/quorate/quorate/health"
)

// CheckLate fires the timer of the endpoint, late by the given duration.
func (e *Endpoint) CheckLate(late time.Duration) {
	e.inflight.mu.Lock()
	e.inflight.due.Store(int64(momentNow()) - int64(late))
	e.inflight.mu.Unlock()
	e.check()
}

// HoldTimer stops the timer of the endpoint.
func (e *Endpoint) HoldTimer() { e.inflight.timer.Stop() }

// Investigate makes four rounds of probes of the endpoint. The third one ends late by the given duration.
func (e *Endpoint) Investigate(late time.Duration) {
	e.probing.Store(true) // the policy makes none meanwhile
	defer e.probing.Store(false)
	i := &investigation{p: e.policy, ep: e, began: time.Now()}
	for _, by := range []time.Duration{0, 0, late, 0} {
		i.round(time.Now().Add(-by))
	}
}

// SpendProbes spends the probes of the endpoint's client.
func (e *Endpoint) SpendProbes() {
	for e.policy.prober.budget.take(time.Now(), 0) {
	}
}

// Answer answers a service probe that was sent at the given time.
func (e *Endpoint) Answer(sent time.Time) {
	e.policy.prober.take(e.conn(Calls), health.Report{Kind: health.Served}, sent)
}
