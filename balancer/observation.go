package balancer

import (
	"time"

	"github.com/quorate/quorate/balancer/internal/probe"
	"github.com/quorate/quorate/health"
)

// backlogs returns what waits to be sent on each connection.
func (i *investigation) backlogs() (b [classes]backlog) {
	for class, s := range i.ep.connections() {
		b[class] = s.conn.backlog()
	}
	return b
}

// evaluate acts on the result of a round. before is the backlog at the start of the
// round.
func (i *investigation) evaluate(now time.Time, before [classes]backlog) {
	o := i.observe(now, before)
	switch probe.Evaluate(o) {
	case probe.Dead:
		i.p.note(i.ep, health.Evidence{Kind: health.Unresponsive, At: now, Detail: "no sign of life for " + o.Silent.Round(time.Millisecond).String()})
		i.closeSilent(now, probe.DeadAfter, before, i.p.checks.closeLater)
		return
	case probe.Stalled:
		i.p.note(i.ep, health.Evidence{Kind: health.Stalled, At: now, Detail: "alive, and nothing completed for " + o.Stalled.Round(time.Millisecond).String()})
	case probe.Silent:
		i.cutSilent(now)
	case probe.Undecided:
		for _, s := range i.ep.connections() {
			if s.ready.Load() && s.silentFor(now) >= probe.DeadAfter {
				i.p.checks.checkConn(s)
			}
		}
	}
	if o.Silent == 0 || o.Busy {
		// The server is alive. Only unresponsive connections are closed.
		i.closeSilent(now, probe.DeadAfter+i.ep.tolerance(), before, i.p.checks.closeSilent)
	}
}

// cutSilent cuts reads and streams on the endpoint's silent connections. They continue elsewhere.
func (i *investigation) cutSilent(now time.Time) {
	for _, s := range i.ep.connections() {
		if s.ready.Load() && s.silentFor(now) >= probe.DeadAfter {
			s.cutAllButWrites(unusableError(i.ep, "others serve"))
		}
	}
}

// isBusy reports whether a large message is in transit on the connection, or it is full. before is the
// backlog at the start of the round.
func (s *subConn) isBusy(now time.Time, before backlog) bool {
	return s.conn.receiving(now) || s.conn.backlog().movedSince(before) || s.isFull()
}

// observe builds the observation of the round.
func (i *investigation) observe(now time.Time, before [classes]backlog) probe.Observation {
	ep := i.ep
	o := probe.Observation{Stalled: ep.stalledFor(now), Own: ep.usualLatency()}
	alive := false // over another connection
	for _, s := range ep.connections() {
		switch {
		case !s.ready.Load():
		case s.isBusy(now, before[s.class]):
			alive = true
			o.Busy = o.Busy || s.class == Calls // the service probe queues there
		default:
			o.Silent = max(o.Silent, s.silentFor(now))
		}
	}
	if alive || ep.healthEntry().AliveSince(now.Add(-o.Silent)) {
		o.Silent = 0
	}
	since := now.Add(-max(o.Stalled, o.Silent))
	for _, other := range ep.others() {
		if took := other.healthEntry().Latest(); other.isWitness(since) && (o.Others == 0 || took < o.Others) {
			o.Others = took
		}
	}
	i.watchOthers(now)
	o.OthersAlive, o.OthersServe = sinceOf(i.othersAlive, now), sinceOf(i.othersServe, now)
	return o
}

// sinceOf returns how long ago t was, 0 for the zero time.
func sinceOf(t, now time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return now.Sub(t)
}

// watchOthers records since when other endpoints have answered what this one has not.
// Only a duration is evidence: after an outage of all endpoints, one is always the first
// to recover.
func (i *investigation) watchOthers(now time.Time) {
	silent, stalled := time.Duration(0), i.ep.stalledFor(now)
	for _, s := range i.ep.connections() {
		unanswered := s.unanswered(&s.probeSent, now)
		s.alive = first(s.alive, unanswered > 0 && i.ep.healthEntry().AliveSince(now.Add(-unanswered)), now)
		silent = max(silent, unanswered)
	}
	alive, serve := false, false
	for _, other := range i.ep.others() {
		alive = alive || silent > 0 && other.isWitness(now.Add(-silent))
		serve = serve || stalled > 0 && other.isWitness(now.Add(-stalled))
	}
	if i.othersServe.IsZero() && serve && stalled >= probe.StallAfter {
		i.found, serve = true, false // no endpoint served until now
		i.discardProbes()
	}
	i.othersAlive, i.othersServe = first(i.othersAlive, alive, now), first(i.othersServe, serve, now)
}

// first returns since when something is true.
func first(since time.Time, isTrue bool, now time.Time) time.Time {
	if !isTrue {
		return time.Time{}
	}
	if since.IsZero() {
		return now
	}
	return since
}

// closeSilent closes the endpoint's connections that have been silent for that long and are
// not busy, once they have had time to recover since the endpoint or another one gave a sign
// of life.
func (i *investigation) closeSilent(now time.Time, silence time.Duration, before [classes]backlog, end func(...*subConn)) {
	var dead []*subConn
	for _, s := range i.ep.connections() {
		silent := s.silentFor(now)
		alive := max(sinceOf(i.othersAlive, now), sinceOf(s.alive, now))
		if s.ready.Load() && silent >= silence && alive >= probe.Recovery(silent) && !s.isBusy(now, before[s.class]) {
			dead = append(dead, s)
		}
	}
	if len(dead) > 0 {
		end(dead...)
	}
}
