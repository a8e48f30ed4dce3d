package balancer

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// unusable is why something ends that is in flight to an endpoint.
func unusable(ep *Endpoint, why string) error {
	st := ep.Health()
	return status.Errorf(codes.Unavailable, "endpoint %s is %v (%v): %s", ep.address, st.State, st.Evidence, why)
}

// cutStuck ends what is in flight to an endpoint that is alive and cannot answer it, once
// another one has served since:
//
//	state     reads, streams   writes
//	Lagging   at once          after Options.WriteStallTimeout
//	Degraded  at once          at once: the member says itself that it has no leader
//
// To cut a read or a stream is free, it goes on elsewhere. To cut a write leaves its outcome
// unknown, and only brings that forward. Calls without a [Watcher], and those of which the
// endpoint is capable, are left alone.
func (p *policy) cutStuck(ep *Endpoint, now time.Time) {
	st := ep.Health()
	if st.State != health.Lagging && st.State != health.Degraded || !ep.busy() || !ep.hasWitness(ep.stuckSince(st)) {
		return
	}
	for _, s := range ep.inflight.streamsOn(nil) {
		if s.conn.class != Bulk {
			s.cut(unusable(ep, "others serve"))
		}
	}
	for _, c := range ep.inflight.callsOn(nil) {
		if c.Need == Full && (!c.attempt.Write || p.mayCutWrite(c, st, now)) {
			c.attempt.cut(unusable(ep, "others serve"))
		}
	}
}

// stuckSince returns since when the endpoint cannot answer: since it was asked for service,
// if it was, and did not say itself that it cannot.
func (e *Endpoint) stuckSince(st *health.Status) time.Time {
	asked := e.serviceAsked.Load()
	if st.State == health.Lagging && asked != nil && asked.Before(st.Since) {
		return *asked
	}
	return st.Since
}

// mayBeCut reports whether something in flight is cut as soon as another endpoint completes
// work.
func (e *Endpoint) mayBeCut() bool {
	st := e.State()
	return (st == health.Lagging || st == health.Degraded) && e.hasAlternative() && e.busy()
}

// mayCutWrite reports whether a write has waited for so long that it may be cut.
func (p *policy) mayCutWrite(c *call, st *health.Status, now time.Time) bool {
	if st.State == health.Degraded {
		return true
	}
	since := c.ep.stuckSince(st)
	if c.start.After(since) {
		since = c.start
	}
	timeout := p.options().WriteStallTimeout
	return timeout > 0 && now.Sub(since) >= timeout
}

// quickAnswer is how long an answer in good time takes at most.
const quickAnswer = 250 * time.Millisecond

// hasQuickWitness reports whether another endpoint serves in good time since then.
func (e *Endpoint) hasQuickWitness(since time.Time) bool {
	for _, other := range e.others() {
		if other.isWitness(since) && other.known().Latest() < quickAnswer {
			return true
		}
	}
	return false
}

// hasWitness reports whether another endpoint has completed work since.
func (e *Endpoint) hasWitness(since time.Time) bool {
	for _, other := range e.others() {
		if other.isWitness(since) {
			return true
		}
	}
	return false
}
