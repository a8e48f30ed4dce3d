package balancer

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// unusable returns the error that ends in-flight work on an endpoint.
func unusable(ep *Endpoint, why string) error {
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
	if st.State != health.Lagging && st.State != health.Degraded || !ep.busy() || !ep.hasWitness(ep.stuckSince(st)) {
		return
	}
	for _, s := range ep.inflight.streamsOn(nil) {
		if s.conn.class != Bulk {
			s.attempt.cut(unusable(ep, "others serve"))
		}
	}
	for _, c := range ep.inflight.callsOn(nil) {
		if c.attempt.Need == Full && !c.isTesting(now) && (!c.attempt.Write || ck.mayCutWrite(c, st, now)) {
			c.attempt.cut(unusable(ep, "others serve"))
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
	if (st == health.Lagging || st == health.Degraded) && e.hasAlternative(Full) && e.busy() {
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
		e.policy.probeOvertaken(term, since, wait/4+rand.N(wait/2))
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
func (p *policy) probeOvertaken(term uint64, since time.Time, pause time.Duration) {
	time.AfterFunc(pause, func() {
		wanted := false
		for _, ep := range p.all() {
			if ep.term.Load() < term && len(ep.overtaken(since)) > 0 {
				wanted = true
				p.prober.send(ep.conn(Calls), forService, nil)
			}
		}
		if wanted {
			p.probeOvertaken(term, since, 2*pause)
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

// errDrained ends the remaining work on a removed endpoint.
var errDrained = status.Error(codes.Unavailable, "the endpoint was removed, and its drain timeout is over")

// drains lets in-flight work on removed endpoints finish within the drain timeout. An endpoint that
// the resolver lists again meanwhile keeps its connections, their in-flight work and its health: a
// list that flaps ends nothing.
type drains struct {
	p *policy
	// timers end the drains; nil after Close. The policy's lock guards it.
	timers map[*Endpoint]*time.Timer
}

// beginLocked removes an endpoint. While work is in flight there its connections stay, in case the endpoint returns. That
// for bulk transfers is closed all the same: transfers in progress still complete.
func (d *drains) beginLocked(ep *Endpoint) listing {
	removal := health.Evidence{Kind: health.Removed, At: time.Now()}
	c := health.Change{Endpoint: ep.address, From: ep.State(), To: health.Draining, Evidence: removal}
	ep.lifetime.Load().end()
	ep.unsubscribe()
	ep.withdrawLocked()
	for _, s := range ep.connections() {
		if s.class == Bulk || !s.ready.Load() || !ep.busy() {
			s.shutLocked()
		}
	}
	var timer *time.Timer
	timer = time.AfterFunc(d.p.config.drainTimeout, func() { d.end(ep, &timer) })
	d.timers[ep] = timer
	return listing{ep, c}
}

// reviveLocked takes an endpoint back that the resolver lists again.
func (d *drains) reviveLocked(ep *Endpoint) listing {
	d.timers[ep].Stop()
	delete(d.timers, ep)
	ep.list(d.p.ctx)
	d.p.subscribe(ep)
	now := ep.Health()
	return listing{ep, health.Change{Endpoint: ep.address, From: health.Draining, To: now.State, Evidence: now.Evidence}}
}

// retire closes the connections of a removed endpoint once nothing is in flight there.
func (d *drains) retire(ep *Endpoint) {
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	if d.timers[ep] != nil && !ep.busy() {
		ep.shutLocked()
	}
}

// end ends what is in flight at the end of the drain timeout, unless the endpoint has returned.
func (d *drains) end(ep *Endpoint, timer **time.Timer) {
	p := d.p
	p.mu.Lock() // which also waits until timer is set
	if d.timers[ep] != *timer {
		p.mu.Unlock()
		return
	}
	delete(d.timers, ep)
	ep.shutLocked()
	p.mu.Unlock()
	p.close(ep.conn(Calls), errDrained)
	p.close(ep.conn(Streams), errDrained)
	p.options().Events.Closed(ep, errDrained)
	ep.inflight.stop()
	ep.healthEntry().Release()
}

// stopLocked ends all drains and returns their endpoints.
func (d *drains) stopLocked() []*Endpoint {
	for _, timer := range d.timers {
		timer.Stop()
	}
	draining := slices.Collect(maps.Keys(d.timers))
	d.timers = nil
	return draining
}

// shutLocked ends the endpoint's connections gracefully.
func (e *Endpoint) shutLocked() {
	for _, s := range e.connections() {
		s.shutLocked()
	}
}
