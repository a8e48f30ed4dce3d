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

// CheckConn makes three rounds of a check of the endpoint's connection for calls. The last one ends late by the
// given duration.
func (e *Endpoint) CheckConn(late time.Duration) {
	s := e.conn(Calls)
	s.checking.Store(true) // the policy makes none meanwhile
	defer s.checking.Store(false)
	e.policy.prober.send(s, forLiveness, nil)
	c := &connCheck{p: e.policy, s: s}
	for _, by := range []time.Duration{0, 0, late} {
		c.round(time.Now().Add(-by))
	}
}

// AwaitStream waits for the answer to a probe for a silent stream. The wait ends late by the given duration.
func (e *Endpoint) AwaitStream(late time.Duration) {
	e.policy.prober.awaitStream(e.conn(Calls), false, time.Now().Add(-late))
}

// CloseSilent closes the endpoint's connection for calls, as one that is found dead.
func (e *Endpoint) CloseSilent() { e.policy.checks.closeSilent(e.conn(Calls)) }

// CloseUnheard closes the endpoint's connection for calls, late by the given duration.
func (e *Endpoint) CloseUnheard(late time.Duration) {
	e.policy.checks.closeUnheard(time.Now().Add(-late), []*subConn{e.conn(Calls)})
}

// CutOvertaken cuts the overtaken calls in flight at the endpoint, late by the given duration.
func (e *Endpoint) CutOvertaken(late time.Duration) {
	now := time.Now()
	e.cutOvertaken(now, now.Add(-time.Hour), now.Add(-late))
}

// Learn observes more calls of a shape that took that long.
func (e *Endpoint) Learn(shape string, took time.Duration, calls int) {
	for range calls {
		e.latency.get(shape, &e.policy.shapes).observe(time.Now().Add(-took), took)
	}
}
