package balancer

import "time"

// CheckLate has the timer of the endpoint fire now, that late.
func (e *Endpoint) CheckLate(late time.Duration) {
	e.inflight.mu.Lock()
	due := time.Now().Add(-late)
	e.inflight.due.Store(&due)
	e.inflight.mu.Unlock()
	e.check()
}

// HoldTimer keeps the timer of the endpoint from firing.
func (e *Endpoint) HoldTimer() { e.inflight.timer.Stop() }
