package balancer

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/health"
)

const (
	// fastRounds is how many rounds follow each other at once: what it takes to find an
	// endpoint dead. After that the pauses double up to a maximum, with full jitter.
	fastRounds = 4
	// maxProbeBackoff is the longest pause between rounds. Slow endpoints serve if need be,
	// and those that are Restricted or NotServing say so themselves: they are asked seldom.
	maxProbeBackoff     = 10 * time.Second
	maxSlowProbeBackoff = 30 * time.Second
	maxRoleProbeBackoff = time.Minute
)

// investigate probes an endpoint until it serves, if there is anything to find out.
func (p *policy) investigate(ep *Endpoint) {
	if !p.canProbe() || !needsProbes(ep.State()) || !ep.probing.CompareAndSwap(false, true) {
		return
	}
	if !p.startTask() {
		ep.probing.Store(false)
		return
	}
	go func() {
		defer p.tasks.Done()
		i := &investigation{p: p, ep: ep, began: time.Now(), next: rand.N(maxWitnesses)}
		i.run()
		ep.probing.Store(false)
		if i.isNeeded() {
			p.investigate(ep) // it began to need it while this ended
		}
	}()
}

// maxWitnesses bounds where an investigation begins to ask others, so that the clients of an
// endpoint in trouble do not all ask the same one.
const maxWitnesses = 1 << 10

// investigation is the probing of one endpoint by one client, from its first round to its
// last.
type investigation struct {
	p  *policy
	ep *Endpoint

	began  time.Time
	rounds int
	next   int // the witness to ask next
	// othersAlive and othersServe are since when others have given a sign of life, and have
	// served, since this endpoint was asked; zero if they have not.
	othersAlive, othersServe time.Time
	elect                    bool // this client probes the endpoint's service, for all of the process

	// witnessed says that another endpoint has been seen to serve in good time, and found that
	// it was in the present round: an outage or an overload of all has ended, perhaps.
	witnessed, found bool

	pending sync.Map // of sent
}

// isNeeded reports whether there is something to find out. Without a connection there is
// nothing that the next one would not show; without another endpoint nothing would follow
// from it.
func (i *investigation) isNeeded() bool {
	return needsProbes(i.ep.State()) && i.ep.Ready() && !i.ep.removed() && i.p.canProbe()
}

func (i *investigation) run() {
	defer func() {
		if i.elect {
			i.ep.known().StopProbing()
		}
	}()
	for i.isNeeded() {
		if !i.elect {
			i.elect = i.ep.known().StartProbing()
		}
		start := time.Now()
		i.round(start)
		i.pause(start)
	}
}

// round asks, waits, and evaluates the answers and their absence.
func (i *investigation) round(start time.Time) {
	i.rounds++
	if (i.elect || i.ep.busy()) && !i.callsTell() {
		i.ask()
		i.askWitness(start)
	}
	before := i.backlogs()
	i.await(probeRound, func() bool {
		now := time.Now()
		for _, s := range i.ep.conns {
			if s.ready.Load() && s.isBusy(now, before) {
				s.restart(now) // answers wait behind a large message
			}
		}
		return i.isAnswered()
	})
	now := time.Now()
	if now.Sub(start) > probeRound+starved {
		i.restart(now) // this process did not run
		return
	}
	i.evaluate(now, before)
}

// callsTell reports whether calls show what probes would: they go to this endpoint, as there
// is no better one, and no verdict is possible.
func (i *investigation) callsTell() bool {
	for _, other := range i.ep.others() {
		if other.State().Usable() {
			return false
		}
	}
	return i.ep.InFlight() > 0
}

// ask asks for service over one connection and for a sign of life over the others that
// carry something. What is not answered yet is not asked again, except for a sign of life
// after service.
func (i *investigation) ask() {
	for _, s := range i.ep.conns {
		if !s.ready.Load() {
			continue
		}
		asked := s.class == Calls && i.elect && i.send(s, forService)
		if !asked && i.carries(s) {
			i.send(s, forLiveness)
		}
	}
}

// carries reports whether the silence of a connection would be somebody's loss.
func (i *investigation) carries(s *subConn) bool {
	return s.class == Calls || len(i.ep.inflight.streamsOn(s)) > 0
}

// send sends a probe, unless one of the same kind is unanswered.
func (i *investigation) send(s *subConn, q question) bool {
	key := sent{s, q}
	if _, pending := i.pending.LoadOrStore(key, true); pending {
		return false
	}
	if !i.p.ask(s, q, func() { i.pending.Delete(key) }) {
		i.pending.Delete(key)
		return false
	}
	return true
}

// sent is a probe that has not ended.
type sent struct {
	conn *subConn
	question
}

// askWitness asks another endpoint for service, if none has shown lately that it serves.
func (i *investigation) askWitness(now time.Time) {
	others := i.ep.others()
	if len(others) == 0 {
		return
	}
	since := now
	if i.rounds > 1 {
		since = now.Add(-probeRound) // whoever serves then is likely to go on
	}
	if asked := i.ep.serviceAsked.Load(); asked != nil && asked.Before(since) {
		since = *asked
	}
	for _, other := range others {
		if other.isWitness(since) {
			return
		}
	}
	i.next++
	other := others[i.next%len(others)]
	if other.stalledFor(now) == 0 {
		i.send(other.conns[Calls], forService)
	}
}

// isAnswered reports whether the round is over: every connection was heard, and the
// endpoint completed what it was asked for.
func (i *investigation) isAnswered() bool {
	now := time.Now()
	for _, s := range i.ep.conns {
		if s.ready.Load() && s.unanswered(&s.asked, now) > 0 {
			return false
		}
	}
	return i.ep.stalledFor(now) == 0
}

// restart begins all questions anew.
func (i *investigation) restart(now time.Time) {
	for _, s := range i.ep.conns {
		s.restart(now)
	}
}

// restart begins the questions anew that were asked over the connection.
func (s *subConn) restart(now time.Time) {
	for _, question := range []*atomic.Pointer[time.Time]{&s.asked, &s.askedLife} {
		if s.unanswered(question, now) > 0 {
			question.Store(&now)
		}
	}
	if s.class == Calls && s.ep.stalledFor(now) > 0 {
		s.ep.serviceAsked.Store(&now)
	}
}

// await waits, and meanwhile ends what is in flight to an endpoint that cannot answer it, as
// soon as another one is seen to serve.
func (i *investigation) await(wait time.Duration, ready func() bool) {
	i.p.await(i.ep, wait, func() bool {
		now := time.Now()
		i.p.cutStuck(i.ep, now)
		i.watchOthers(now)
		if !i.witnessed && i.ep.hasQuickWitness(i.ep.Health().Since) {
			i.witnessed, i.found = true, true
			if now.Sub(i.began) > probeRound/2 {
				i.askAnew()
			}
		}
		return ready()
	})
}

// pause waits until it is time for another round.
func (i *investigation) pause(start time.Time) {
	pause := probeRound
	if i.rounds >= fastRounds && !i.ep.needsAnother() {
		pause = rand.N(min(probeRound<<min(i.rounds-fastRounds+1, 10), i.maxBackoff())) + probeRound/2
	}
	state := i.ep.State()
	i.await(time.Until(start.Add(pause)), func() bool { return !i.isNeeded() || i.ep.State() != state || i.found })
	if i.ep.State() != state || i.found {
		i.rounds = min(i.rounds, fastRounds-2)
		i.pending.Clear() // the next answer may come before those that are waited for
	}
	i.found = false
}

// askAnew forgets what the endpoint was asked while nobody served: it may have to wait still,
// for what was asked before it. How long its connections have been silent is not forgotten.
func (i *investigation) askAnew() {
	i.pending.Clear()
	i.ep.serviceAsked.Store(nil)
}

func (i *investigation) maxBackoff() time.Duration {
	switch i.ep.State() {
	case health.Slow:
		return maxSlowProbeBackoff
	case health.Restricted, health.NotServing:
		return maxRoleProbeBackoff
	default:
		return maxProbeBackoff
	}
}

// backlogs returns what waits to be sent on each connection.
func (i *investigation) backlogs() (b [classes]backlog) {
	for class, s := range i.ep.conns {
		b[class] = s.conn.backlog()
	}
	return b
}

// evaluate draws conclusions from a round. before is what waited to be sent at its begin.
func (i *investigation) evaluate(now time.Time, before [classes]backlog) {
	o := i.observe(now, before)
	switch evaluate(o) {
	case dead:
		i.p.note(i.ep, health.Evidence{Kind: health.Unresponsive, At: now, Detail: "no sign of life for " + o.silent.Round(time.Millisecond).String()})
		i.closeSilent(now, deadAfter, before)
		return
	case stalled:
		i.p.note(i.ep, health.Evidence{Kind: health.Stalled, At: now, Detail: "alive, and nothing completed for " + o.stalled.Round(time.Millisecond).String()})
	case undecided:
	}
	if o.silent == 0 || o.busy {
		// The server is alive. Connections that are not are closed alone.
		i.closeSilent(now, deadAfter+i.ep.tolerance(), before)
	}
}

// isBusy reports whether a large message is on its way over the connection: before is what
// waited to be sent at the begin of the round.
func (s *subConn) isBusy(now time.Time, before [classes]backlog) bool {
	return s.conn.receiving(now) || s.conn.backlog().movedSince(before[s.class])
}

// observe puts together what is known.
func (i *investigation) observe(now time.Time, before [classes]backlog) observation {
	ep := i.ep
	o := observation{stalled: ep.stalledFor(now), own: ep.usualLatency()}
	alive := false // over another connection
	for _, s := range ep.conns {
		switch {
		case !s.ready.Load():
		case s.isBusy(now, before):
			alive = true
			o.busy = o.busy || s.class == Calls // the question for service waits there
		default:
			o.silent = max(o.silent, s.silentFor(now))
		}
	}
	if alive || ep.known().AliveSince(now.Add(-o.silent)) {
		o.silent = 0
	}
	asked := now.Add(-max(o.stalled, o.silent))
	for _, other := range ep.others() {
		if took := other.known().Latest(); other.isWitness(asked) && (o.others == 0 || took < o.others) {
			o.others = took
		}
	}
	i.watchOthers(now)
	o.othersAlive, o.othersServe = sinceOf(i.othersAlive, now), sinceOf(i.othersServe, now)
	return o
}

// sinceOf returns how long ago t was, 0 for the zero time.
func sinceOf(t, now time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return now.Sub(t)
}

// watchOthers notes since when others have shown what the endpoint was asked for. That it
// just became true shows nothing: after an outage of all, one is always the first.
func (i *investigation) watchOthers(now time.Time) {
	silent, stalled := time.Duration(0), i.ep.stalledFor(now)
	for _, s := range i.ep.conns {
		unanswered := s.unanswered(&s.asked, now)
		s.alive = first(s.alive, unanswered > 0 && i.ep.known().AliveSince(now.Add(-unanswered)), now)
		silent = max(silent, unanswered)
	}
	alive, serve := false, false
	for _, other := range i.ep.others() {
		alive = alive || silent > 0 && other.isWitness(now.Add(-silent))
		serve = serve || stalled > 0 && other.isWitness(now.Add(-stalled))
	}
	if i.othersServe.IsZero() && serve && stalled >= stallAfter {
		i.found, serve = true, false // nobody served until now
		i.askAnew()
	}
	i.othersAlive, i.othersServe = first(i.othersAlive, alive, now), first(i.othersServe, serve, now)
}

// first returns since when something is true.
func first(since time.Time, isTrue bool, now time.Time) time.Time {
	switch {
	case !isTrue:
		return time.Time{}
	case since.IsZero():
		return now
	default:
		return since
	}
}

// closeSilent closes the connections of the endpoint that were silent for that long, have had
// time to recover since there was a sign of life of it or of others, and are not busy.
func (i *investigation) closeSilent(now time.Time, silence time.Duration, before [classes]backlog) {
	closed := false
	for _, s := range i.ep.conns {
		silent := s.silentFor(now)
		alive := max(sinceOf(i.othersAlive, now), sinceOf(s.alive, now))
		if s.ready.Load() && silent >= silence && alive >= recovery(silent) && !s.isBusy(now, before) {
			i.p.close(s, unusable(i.ep, "its connection gives no sign of life"))
			closed = true
		}
	}
	if closed {
		i.p.options().Events.Closed(i.ep, unusable(i.ep, "its connection gives no sign of life"))
	}
}
