package balancer

import (
	"math/rand/v2"
	"slices"
	"sync"
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

// A Raft leader that is deposed loses the writes that it has not committed: they get no answer until etcd
// fails them after 7 s. An endpoint answers in the order of the log, and forwards in that order what
// waited for a leader. So once it has completed work that began after the new term was known, the answer
// to an earlier write is on its way, or never comes.

// overtakenShare is the part of [Options.WriteStallTimeout] that an overtaken write has left to be
// answered: 0.25 s with the default. That covers the commit of a write that waited for the
// leader, and one that members forwarded twice.
const overtakenShare = 8

// errOvertaken is the reason of a cut write.
var errOvertaken = status.Error(codes.Unavailable, "write abandoned: the leader changed, its endpoint serves again, and the older write is not answered")

// terms holds the latest term that an endpoint has shown.
type terms struct {
	mu     sync.Mutex
	latest uint64    // 0 if none is known
	since  time.Time // when it became known; zero for the first, which ends no other
}

// learn reports whether the term is new, whether it is the latest, and since when the latest is
// known.
func (t *terms) learn(term uint64) (isNew, latest bool, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	isNew = term > t.latest
	if isNew && t.latest != 0 {
		t.since = time.Now()
	}
	t.latest = max(t.latest, term)
	return isNew, term == t.latest, t.since
}

// ServedInTerm records that the endpoint completed work that began at that time, and the term of
// the leader that it named; 0 if it names none. It reports whether the term is later than all
// that endpoints of the ClientConn have named.
//
// Prompt writes ([Attempt.Prompt]) that were picked before the latest term was known are cut if the
// endpoint has completed work begun since, and answers them neither within an eighth of
// [Options.WriteStallTimeout] nor within the time after which silence is unusual for their
// shape. A nil or detached endpoint is valid.
func (e *Endpoint) ServedInTerm(term uint64, began time.Time) (isNew bool) {
	if e == nil || e.policy == nil {
		return false
	}
	shown := e.term.Load()
	if term <= shown {
		return false
	}
	isNew, latest, since := e.policy.terms.learn(term)
	wait := e.policy.options().WriteStallTimeout / overtakenShare
	cuts := wait > 0 && !since.IsZero()
	if cuts && isNew {
		e.policy.prober.probeOvertaken(term, since, wait/4+rand.N(wait/2))
	}
	if latest && !began.Before(since) && e.term.CompareAndSwap(shown, term) && cuts {
		now := time.Now()
		e.cutOvertaken(since, now, now.Add(wait))
	}
	return isNew
}

// overtaken returns the prompt calls in flight that were picked before a time.
func (e *Endpoint) overtaken(before time.Time) (writes []*call) {
	for _, c := range e.inflight.callsOn(nil) {
		if c.attempt.Prompt && c.start.Time().Before(before) {
			writes = append(writes, c)
		}
	}
	return writes
}

// probeOvertaken sends service probes, after pauses that double, to endpoints that have completed nothing since a
// term was known, and on which writes picked before wait. Without a probe, there may be no call that shows whether
// they serve.
func (pr *prober) probeOvertaken(term uint64, since time.Time, pause time.Duration) {
	time.AfterFunc(pause, func() {
		wanted := false
		for _, ep := range pr.p.all() {
			if ep.term.Load() < term && len(ep.overtaken(since)) > 0 {
				wanted = true
				pr.send(ep.conn(Calls), forService, nil)
			}
		}
		if wanted {
			pr.probeOvertaken(term, since, 2*pause)
		}
	})
}

// cutOvertaken cuts the prompt calls that were picked before a time and are still unanswered when due, or
// when their suspectAfter has passed since the endpoint served in the later term, if that is later.
func (e *Endpoint) cutOvertaken(before, served, due time.Time) {
	runAt(due, func() {
		now := time.Now()
		var next time.Duration
		for _, c := range e.overtaken(before) {
			if more := c.suspectAfter - now.Sub(served); more <= 0 {
				c.attempt.cut(errOvertaken)
			} else if next == 0 || more < next {
				next = more
			}
		}
		if next > 0 {
			e.cutOvertaken(before, served, now.Add(next))
		}
	})
}
