package balancer

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/quorate/quorate/balancer/internal/probe"
)

// A second connection to an endpoint is the witness where no other endpoint can be: there is only one, or all are
// silent. A NAT or a firewall may have dropped the flow, the server behind a virtual address may be frozen, or a name
// may have another address now. If the second connection serves, the first one is dead and the second replaces it. A
// frozen member answers on neither; an overloaded cluster answers late on both, on the first one first.

const (
	// defaultDialTimeout is how long the network may take to make a second connection where a name must be resolved
	// first, or the latency is not known. The SYN is sent again after 1 s, and since Linux 6.5 after 2 s.
	defaultDialTimeout = 2200 * time.Millisecond
	// acceptedWait is the silence after which a second connection is made to an endpoint whose kernel
	// acknowledges what is sent: its server may be overloaded. Where nothing is acknowledged there is no wait.
	acceptedWait = 1500 * time.Millisecond
	// secondAnswers is how many liveness checks a second connection must answer while the first one
	// is silent.
	secondAnswers = 2
	// Another second connection is tried after 1/retryShare to 2/retryShare of the silence, or with the backoff of
	// attempts to connect if that is longer, or after 1/lostShare of the silence if the packets of the last one were
	// lost. Attempts whose packets are all lost cost servers nothing, and show the end of an outage. TCP may take as
	// long again as the outage lasted to repeat what was sent on the first connection.
	retryShare = 10
	lostShare  = 50
)

// secondConns schedules the second connections of a client, one at a time. The policy's lock
// guards it.
type secondConns struct {
	running bool
	due     time.Time // when the next one may be made
	latest  *Endpoint // the endpoint of the latest one
	useless int       // accepted ones in a row that replaced none
}

// secondConn is a trial of a second connection beside a silent one.
type secondConn struct {
	p           *policy
	old, second *subConn
	before      backlog // the backlog of the old one
	lost        bool    // the network has not made the connection in time
}

// trySecondConn makes a second connection to the endpoint of a silent one, unless it is too early
// for that, and reports whether the second connection has replaced the silent one.
func (ck *checker) trySecondConn(old *subConn, now time.Time) bool {
	t := &secondConn{p: ck.p, old: old, second: &subConn{ep: old.ep, class: old.class, first: old.first, onTrial: true}, before: old.conn.backlog()}
	if !t.begin(now) {
		return false
	}
	replaced := t.awaitReady() && t.awaitAnswers() && t.replace()
	t.end(replaced)
	return replaced
}

// begin opens the second connection.
func (t *secondConn) begin(now time.Time) bool {
	p := t.p
	if !t.before.retransmitting && t.old.silentFor(now) < acceptedWait || !t.old.ep.hasInFlight() && !p.release() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	due := p.checks.secondConns.due
	if p.checks.secondConns.latest == t.old.ep && len(p.all()) > 1 {
		due = due.Add(2 * probe.Round) // the turn of another one
	}
	if p.closed || p.checks.secondConns.running || now.Before(due) || t.old.ep.conn(t.old.class) != t.old {
		return false
	}
	if now.Sub(due) > maxPause {
		p.checks.secondConns.useless = 0
	}
	p.checks.secondConns.running, p.checks.secondConns.latest = true, t.old.ep
	p.openLocked(t.second)
	return true
}

// end sets when the next second connection may be made: the longer the outage, the later, but
// soon after one that worked, since that may be the witness for others. The end of a silence does not reset the
// backoff: a slow server, which accepts each connection, does not get one for each late answer. end closes a second
// connection that did not take the place of the old one.
func (t *secondConn) end(replaced bool) {
	now := time.Now()
	silent := t.old.unanswered(&t.old.probeSent, now)
	pause := min(silent/retryShare, maxPause/2)
	pause += rand.N(pause + 1)
	t.p.mu.Lock()
	s := &t.p.checks.secondConns
	switch {
	case replaced:
		s.useless = 0
		pause = firstPause + rand.N(firstPause)
	case t.lost:
		s.useless = 0
		pause = min(max(silent/lostShare, probe.Round), maxPause/2)
		pause += rand.N(pause/2 + 1)
	default:
		pause = max(pause, pauseAfter(s.useless, 1, maxPause))
		s.useless++
	}
	s.running, s.due = false, now.Add(pause)
	if !replaced {
		t.second.shutLocked()
	}
	t.p.mu.Unlock()
	if !replaced {
		t.second.conn.close()
	}
}

// isOver reports whether the old connection has been heard or lost, or another one of the client has been heard.
func (t *secondConn) isOver() bool {
	now := time.Now()
	heard, _ := t.p.checks.heardBeside(t.old, now)
	return heard || t.old.unanswered(&t.old.probeSent, now) == 0 || !t.old.ready.Load()
}

// awaitReady waits for the second connection. The kernel of a frozen server accepts it, and nothing follows: one that
// was accepted gets time, one whose packets the network loses does not.
func (t *secondConn) awaitReady() bool {
	ended := func() bool { return t.isOver() || t.second.ready.Load() || t.second.failing.Load() }
	if !t.await(t.dialTimeout(), func() bool { return ended() || t.second.conn.known() }) {
		t.lost = true
		return false
	}
	return t.await(minConnectTimeout, ended) && !t.isOver() && t.second.ready.Load()
}

// dialTimeout returns how long the network may take to make the connection.
func (t *secondConn) dialTimeout() time.Duration {
	ep := t.old.ep
	if _, err := netip.ParseAddrPort(ep.address); err != nil || ep.usualLatency() == 0 {
		return defaultDialTimeout
	}
	return probe.Round + ep.tolerance()
}

// untilSecondConn returns how long it is until another second connection may be tried.
func (ck *checker) untilSecondConn(now time.Time) time.Duration {
	ck.p.mu.Lock()
	defer ck.p.mu.Unlock()
	if ck.secondConns.running {
		return 2 * probe.Round
	}
	return ck.secondConns.due.Sub(now)
}

// await is prober.await for a longer time: it calls ready at least in every probe round.
func (t *secondConn) await(wait time.Duration, ready func() bool) bool {
	due := time.Now().Add(wait)
	for !t.p.prober.await(t.old.ep, min(time.Until(due), probe.Round), ready) {
		if t.old.ep.removed() || !time.Now().Before(due) {
			return false
		}
	}
	return true
}

// probe sends a liveness check over a connection. It takes nothing from the budget of probes: there are three for
// each second connection that a server accepts, and these have bounds of their own.
func (t *secondConn) probe(s *subConn) bool {
	return t.p.prober.sendWithBudget(s, forLiveness, probeTimeout, func(time.Time) bool { return true }, nil)
}

// awaitAnswers probes the old connection, and after it the second one, which must answer while the old one
// is silent, and again after twice the time that took. One answer suffices where the peer's kernel
// acknowledges nothing on the old connection: overload does not explain that.
func (t *secondConn) awaitAnswers() bool {
	if !t.probe(t.old) || t.await(watchInterval, t.isOver) {
		return false // earlier probes may have ended unread
	}
	for range secondAnswers {
		sent := time.Now()
		heard := func() bool { return t.isOver() || t.second.heard.After(sent) }
		if !t.probe(t.second) || !t.await(probeTimeout, heard) {
			return false
		}
		if t.old.conn.backlog().retransmitting {
			break
		}
		if t.await(max(probe.Round, 2*time.Since(sent)), t.isOver) {
			return false
		}
	}
	return !t.old.ep.removed() && !t.old.isBusy(time.Now(), t.before)
}

// replace gives the second connection the place of the old one. Reads and streams on the old one end,
// and go on over the second. Writes on the old one get as long as TCP may need to repeat them.
func (t *secondConn) replace() bool {
	p, old, ep := t.p, t.old, t.old.ep
	silent := old.unanswered(&old.probeSent, time.Now())
	reason := unusableError(ep, "its connection gives no sign of life, a new one does")
	p.mu.Lock()
	if p.closed || ep.removed() || ep.conn(old.class) != old || !t.second.ready.Load() {
		p.mu.Unlock()
		return false
	}
	t.second.replaceLocked(old)
	taken, sc := p.takeReadyLocked(t.second), t.second.sc
	p.mu.Unlock()
	p.changedBy(t.second, sc, taken)
	p.prober.connected(t.second)
	old.cutAllButWrites(reason)
	if len(ep.inflight.callsOn(old)) > 0 {
		p.checks.closeUnheard(time.Now().Add(probe.Recovery(silent)), []*subConn{old})
	} else {
		old.conn.close()
	}
	p.options().Events.Closed(ep, reason)
	p.checks.cutSilent(silent)
	return true
}

// cutSilent cuts reads and streams on connections that left a probe unanswered or retransmit, and checks all that were
// silent for as long: what made one connection fail may have made others fail.
func (ck *checker) cutSilent(silent time.Duration) {
	now := time.Now()
	for _, ep := range ck.p.all() {
		for _, s := range ep.connections() {
			if !s.ready.Load() || s.heard.Since(now) < silent {
				continue
			}
			if s.unanswered(&s.probeSent, now) >= probe.DeadAfter || s.conn.backlog().retransmitting {
				s.cutAllButWrites(unusableError(ep, "another connection serves"))
			}
			if s.carries() {
				ck.checkConn(s)
			}
		}
	}
}
