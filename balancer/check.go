package balancer

import (
	"slices"
	"time"

	"github.com/quorate/quorate/balancer/internal/probe"
)

// checker ends connections that are silent, and work that cannot complete where it is.
type checker struct {
	p           *policy
	secondConns secondConns
}

// checkConn finds out whether a connection is alive. Only bytes on the connection itself show that. If the
// endpoint works over other connections meanwhile, of this client or of other clients of the process, the
// silence is a verdict. The endpoint keeps its state.
func (ck *checker) checkConn(s *subConn) { ck.checkWithReserve(s, 0) }

// checkWithReserve is checkConn, and leaves a reserve in the budget of probes.
func (ck *checker) checkWithReserve(s *subConn, reserve float64) {
	if ck.p.options().DisableSuspicion || !s.checking.CompareAndSwap(false, true) {
		return
	}
	started := ck.p.start(func() {
		defer s.checking.Store(false)
		if s.unanswered(&s.livenessSent, time.Now()) > 0 || ck.p.prober.sendWithReserve(s, forLiveness, probeTimeout, reserve, nil) {
			(&connCheck{p: ck.p, s: s}).run()
		}
	})
	if !started {
		s.checking.Store(false)
	}
}

// connCheck is the check of a connection over which a probe was sent.
type connCheck struct {
	p *policy
	s *subConn
	// alive is since when the endpoint gives signs of life over other connections, while this one
	// is silent, and others since when other endpoints give them to this client; zero if they do not.
	alive, others time.Time
	// next is when the latest liveness check ends, zero while there was only the first.
	next time.Time
}

// run waits until the connection is heard, lost, or found dead.
func (c *connCheck) run() {
	for c.round(time.Now()) {
	}
}

// round waits for a while, and reports whether the check goes on.
func (c *connCheck) round(start time.Time) (goesOn bool) {
	wait, before := c.pause(start), c.s.conn.backlog()
	ended := c.p.prober.await(c.s.ep, wait, func() bool {
		now := time.Now()
		silent := c.s.unanswered(&c.s.probeSent, now)
		c.alive = first(c.alive, silent > 0 && c.s.ep.healthEntry().AliveSince(now.Add(-silent)), now)
		return silent == 0 || !c.s.ready.Load()
	})
	// When a check ends, the next one waits for as long as the silence so far: at its end the server finds few checks, and,
	// if the budget allows, one that still waits for the answer.
	now := time.Now()
	silent := c.s.unanswered(&c.s.livenessSent, now)
	if !ended && silent > probeTimeout && now.After(c.next) && c.p.prober.sendWithReserve(c.s, forLiveness, silent+probeTimeout, probeReserve, nil) {
		c.next = now.Add(silent + probeTimeout)
	}
	beside, elsewhere := c.p.checks.heardBeside(c.s, now)
	c.others = first(c.others, elsewhere, now)
	switch {
	case ended || c.s.ep.removed():
		return false
	case now.Sub(start) > wait+starved || c.s.isBusy(now, before):
		c.s.restart(now)
	case c.untilDead(now) > 0:
	case sinceOf(c.alive, now) >= probe.Recovery(c.s.silentFor(now)):
		c.p.checks.closeSilent(c.s)
		return false
	case sinceOf(c.others, now) >= probe.WitnessAfter:
		c.s.cutAllButWrites(unusableError(c.s.ep, "other connections serve")) // they go on there
	case beside:
	case c.s.class != Calls:
		c.p.checks.checkConn(c.s.ep.conn(Calls)) // it may be the witness
	case c.p.checks.trySecondConn(c.s, now):
		return false
	}
	return true
}

// heardBeside reports whether something has arrived on another connection of the client for as long as this one is
// silent, and whether on one to another endpoint, where its calls can go. What other clients of the process receive
// does not help it.
func (ck *checker) heardBeside(silent *subConn, now time.Time) (beside, elsewhere bool) {
	since := now.Add(-silent.silentFor(now))
	for _, ep := range ck.p.all() {
		for _, s := range ep.connections() {
			if s.ready.Load() && s.heard.After(since) {
				beside, elsewhere = true, elsewhere || ep != silent.ep
			}
		}
	}
	return beside, elsewhere
}

// untilDead returns how much longer the connection must be silent to be dead, if there is a witness.
func (c *connCheck) untilDead(now time.Time) time.Duration {
	return max(probe.DeadAfter+c.s.ep.tolerance()-c.s.unanswered(&c.s.probeSent, now), livenessTimeout-c.s.unanswered(&c.s.livenessSent, now))
}

// pause returns when to look again: within a round, or less often in a long outage.
func (c *connCheck) pause(now time.Time) time.Duration {
	left := c.untilDead(now)
	if c.alive.IsZero() && left < -2*acceptedWait {
		return min(max(c.p.checks.untilSecondConn(now), watchInterval), 2*probe.Round)
	}
	return min(max(left, watchInterval), probe.Round)
}

// closeSilent closes connections of an endpoint that are found dead, and calls Events.Closed.
func (ck *checker) closeSilent(dead ...*subConn) {
	reason := unusableError(dead[0].ep, "its connection gives no sign of life")
	for _, s := range dead {
		ck.p.close(s, reason)
	}
	ck.p.options().Events.Closed(dead[0].ep, reason)
}

// pauseShare is the part of [Options.WriteStallTimeout] that writes have left to be answered once their endpoint is
// found dead: 0.25 s with the default, 0.92 s in all. A process that only pauses answers them. Work that can go
// elsewhere does so at once.
const pauseShare = 8

// closeLater closes connections of an endpoint that is found dead: at once, or, if writes wait on
// them, after a while, unless the endpoint is heard meanwhile.
func (ck *checker) closeLater(dead ...*subConn) {
	reason := unusableError(dead[0].ep, "its connection gives no sign of life")
	wait := ck.p.options().WriteStallTimeout / pauseShare
	var now, later []*subConn
	for _, s := range dead {
		if wait <= 0 || !slices.ContainsFunc(s.ep.inflight.callsOn(s), (*call).isWrite) {
			now = append(now, s)
			continue
		}
		s.cutAllButWrites(reason)
		if s.closing.CompareAndSwap(false, true) {
			later = append(later, s)
		}
	}
	if len(now) > 0 {
		ck.closeSilent(now...)
	}
	if len(later) > 0 {
		ck.closeUnheard(time.Now().Add(wait), later)
	}
}

// cutAllButWrites ends the reads and streams on the connection.
func (s *subConn) cutAllButWrites(reason error) {
	for _, c := range s.ep.inflight.callsOn(s) {
		if !c.isWrite() {
			c.attempt.cut(reason)
		}
	}
	s.cutStreams(reason)
}

// closeUnheard closes the connections that have not been heard by the time due.
func (ck *checker) closeUnheard(due time.Time, conns []*subConn) {
	since := time.Now()
	runAt(due, func() {
		var dead []*subConn
		for _, s := range conns {
			s.closing.Store(false)
			if replaced := s.ep.conn(s.class) != s; (s.ready.Load() || replaced) && !s.heard.After(since) {
				dead = append(dead, s)
			}
		}
		if len(dead) > 0 {
			ck.closeSilent(dead...)
		}
	})
}
