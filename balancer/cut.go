package balancer

import (
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// unusableError returns the error that ends in-flight work on an endpoint.
func unusableError(ep *Endpoint, why string) error {
	st := ep.Health()
	return status.Errorf(codes.Unavailable, "endpoint %s is %v (%v): %s", ep.address, st.State, st.Evidence, why)
}

// cutStuck ends in-flight work on an endpoint that is alive but cannot complete it, once
// another endpoint has served since:
//
//	state     reads, streams   writes
//	Lagging   at once          after Options.WriteStallTimeout
//	Degraded  at once          at once: the member says itself that it has no leader
//
// Cutting a read or a stream is safe: it continues on another endpoint. Cutting a write
// leaves its outcome unknown. Calls without a [Watcher], and calls that the endpoint can
// still serve, are not cut.
func (ck *checker) cutStuck(ep *Endpoint, now time.Time) {
	st := ep.Health()
	if st.State != health.Lagging && st.State != health.Degraded || !ep.hasInFlight() || !ep.hasWitness(ep.stuckSince(st)) {
		return
	}
	for _, s := range ep.inflight.streamsOn(nil) {
		if s.conn.class != Bulk {
			s.attempt.cut(unusableError(ep, "others serve"))
		}
	}
	for _, c := range ep.inflight.callsOn(nil) {
		if c.attempt.Need == Full && !c.isTesting(now) && (!c.attempt.Write || ck.mayCutWrite(c, st, now)) {
			c.attempt.cut(unusableError(ep, "others serve"))
		}
	}
}

// stuckSince returns since when the endpoint cannot complete work: since the oldest
// unanswered service probe, or, if the member itself reported it or there is no such probe,
// since the state changed.
func (e *Endpoint) stuckSince(st *health.Status) time.Time {
	oldest := e.serviceProbeSent.Load()
	if st.State == health.Lagging && oldest != nil && oldest.Before(st.Since) {
		return *oldest
	}
	return st.Since
}

// mayBeCut reports whether any in-flight work is to be cut once another endpoint completes
// work.
func (e *Endpoint) mayBeCut() bool {
	st := e.State()
	if (st == health.Lagging || st == health.Degraded) && e.hasAlternative(Full) && e.hasInFlight() {
		return true
	}
	stuck, _ := e.stuckLocally(time.Now())
	return len(stuck) > 0 && e.hasAlternative(Local)
}

// mayCutWrite reports whether a write has waited for so long that it may be cut.
func (ck *checker) mayCutWrite(c *call, st *health.Status, now time.Time) bool {
	if st.State == health.Degraded {
		return true
	}
	since := c.conn.ep.stuckSince(st)
	if start := c.start.Time(); start.After(since) {
		since = start
	}
	timeout := ck.p.options().WriteStallTimeout
	return timeout > 0 && now.Sub(since) >= timeout
}

// quickAnswer is the longest latency that counts as timely.
const quickAnswer = 250 * time.Millisecond

// hasQuickWitness reports whether another endpoint has completed timely work since.
func (e *Endpoint) hasQuickWitness(since time.Time) bool {
	return slices.ContainsFunc(e.others(), func(other *Endpoint) bool {
		return other.isWitness(since) && other.healthEntry().Latest() < quickAnswer
	})
}

// hasWitness reports whether another endpoint has completed work since.
func (e *Endpoint) hasWitness(since time.Time) bool {
	return slices.ContainsFunc(e.others(), func(other *Endpoint) bool { return other.isWitness(since) })
}
