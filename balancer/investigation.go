package balancer

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/balancer/internal/probe"
	"github.com/quorate/quorate/health"
)

const (
	// fastRounds is how many rounds run without a pause: enough to find an endpoint dead.
	// After that the pauses double up to a maximum, with full jitter.
	fastRounds = 4
	// maxProbeBackoff is the longest pause between rounds. Slow endpoints can still serve,
	// and Restricted or NotServing ones report their state themselves, so these are probed
	// less often.
	maxProbeBackoff     = 10 * time.Second
	maxSlowProbeBackoff = 30 * time.Second
	maxRoleProbeBackoff = time.Minute
	// unprovenPause, and up to twice as much, is the least pause after an outage of all while the budget refuses probes.
	unprovenPause = time.Second
)

// investigate probes an endpoint until it serves, if probes are needed.
func (pr *prober) investigate(ep *Endpoint) {
	if !pr.canProbe() || !needsProbes(ep.State()) || !ep.probing.CompareAndSwap(false, true) {
		return
	}
	started := pr.p.start(func() {
		i := &investigation{p: pr.p, ep: ep, next: rand.N(maxWitnesses)}
		i.run()
		ep.probing.Store(false)
		if i.isNeeded() {
			pr.investigate(ep) // a new need arose while this investigation ended
		}
	})
	if !started {
		ep.probing.Store(false)
	}
}

// maxWitnesses bounds the random first witness, so that the clients of a failing endpoint do
// not all probe the same one.
const maxWitnesses = 1 << 10

// investigation is the probing of one endpoint by one client, from its first round to its
// last.
type investigation struct {
	p  *policy
	ep *Endpoint

	began  time.Time // when the first round over the present connection began
	made   int32     // the number of that connection for calls
	rounds int       // over it
	next   int       // the witness to probe next
	// othersAlive and othersServe are since when others have given a sign of life, or have
	// served, after this endpoint was probed; zero if they have not.
	othersAlive, othersServe time.Time
	localWitness             time.Time // since when another endpoint has served local reads like those that wait here
	elected                  bool      // this client probes the endpoint for all clients of the process
	overBudget               bool      // the budget refused a probe of the present round
	statusSent               time.Time

	// witnessed is set once another endpoint has completed timely work. found is set if the present
	// round shows something that the next one looks into at once: a witness, as at the end of an outage
	// or overload of all endpoints, or that the member has no leader.
	witnessed, found bool

	pending sync.Map // of sent
}

// isNeeded reports whether probing can change anything. Without a connection there is
// nothing to probe; without another endpoint no verdict is possible. An endpoint that says
// by gRPC's health check that it does not serve is probed only for the sake of its in-flight
// work, in case it is dead.
func (i *investigation) isNeeded() bool {
	return needsProbes(i.ep.State()) && i.ep.Ready() && !i.ep.removed() && i.p.prober.canProbe() && (!i.ep.refuses.Load() || i.ep.hasInFlight())
}

func (i *investigation) run() {
	i.await(time.Until(i.p.reconnects.probesFrom()), func() bool { return !i.isNeeded() })
	for i.isNeeded() {
		i.elected = i.elected || i.ep.healthEntry().StartProbing()
		start := time.Now()
		if i.isRenewed() {
			i.made, i.began, i.rounds = i.ep.conn(Calls).made.Load(), start, 0
			i.pending.Clear()
		}
		i.round(start)
		i.pause(start)
	}
	i.resign()
	for _, s := range i.ep.connections() {
		if s.ready.Load() && s.unanswered(&s.probeSent, time.Now()) > 0 {
			i.p.checks.checkConn(s) // answers to other clients are no sign of life of this connection
		}
	}
}

// isRenewed reports whether the connection for calls is a new one, which may lead to a server in another state.
func (i *investigation) isRenewed() bool { return i.ep.conn(Calls).made.Load() != i.made }

// resign lets another client of the process probe the endpoint.
func (i *investigation) resign() {
	if i.elected {
		i.elected = false
		i.ep.healthEntry().StopProbing()
	}
}

// round sends probes, waits, and evaluates the result.
func (i *investigation) round(start time.Time) {
	i.rounds++
	i.overBudget = false
	if (i.elected || i.ep.hasInFlight()) && !i.callsSuffice() {
		i.sendProbes()
		i.probeWitness(start)
	}
	if i.overBudget {
		i.resign() // another client may have the budget, and need not wait for the end of this round
	}
	before, state := i.backlogs(), i.ep.State()
	i.await(probe.Round, func() bool {
		now := time.Now()
		for _, s := range i.ep.connections() {
			if s.ready.Load() && s.isBusy(now, before[s.class]) {
				s.restart(now) // responses queue behind a large message, or probes are not sent
			}
		}
		return i.isAnswered()
	})
	now := time.Now()
	if now.Sub(start) > probe.Round+starved {
		for _, s := range i.ep.connections() {
			s.restart(now) // the process was starved
		}
		return
	}
	i.found = i.found || state != health.Degraded && i.ep.State() == health.Degraded // the next round looks for a witness
	i.evaluate(now, before)
}

// callsSuffice reports whether calls make probes unnecessary: they go to this endpoint, as
// there is no better one, and no verdict is possible.
func (i *investigation) callsSuffice() bool {
	for _, other := range i.ep.others() {
		if other.State().Usable() || other.rank(needLocal) < i.ep.rank(needLocal) {
			return false
		}
	}
	return i.ep.InFlight() > 0
}

// sendProbes sends a service probe over one connection and liveness checks over the other
// connections in use. It repeats no unanswered probe. Beside a service probe it sends a liveness
// check if local reads wait, otherwise only while the service probe is unanswered.
func (i *investigation) sendProbes() {
	for _, s := range i.ep.connections() {
		if !s.ready.Load() {
			continue
		}
		serviceSent := s.class == Calls && i.elected && i.send(s, forService)
		lives := time.Since(i.statusSent) < 2*statusPace && s.heard.After(i.statusSent) // as its status shows
		if kind := i.livenessKind(); !lives && s.carries() && (!serviceSent || kind == forLocal) {
			i.send(s, kind)
		}
	}
}

// carries reports whether the connection is in use, so that its silence matters.
func (s *subConn) carries() bool {
	return s.class == Calls || len(s.ep.inflight.streamsOn(s)) > 0 || len(s.ep.inflight.callsOn(s)) > 0
}

// send sends a probe, unless one of the same kind is unanswered.
func (i *investigation) send(s *subConn, kind probeKind) bool {
	key := sent{s, kind}
	if _, pending := i.pending.LoadOrStore(key, true); pending {
		return false
	}
	reserve := i.p.prober.reserve(s, kind)
	if i.hasLasted() {
		reserve = faultReserve
	}
	if !i.p.prober.sendWithReserve(s, kind, probeTimeout, reserve, func() { i.pending.Delete(key) }) {
		i.pending.Delete(key)
		i.overBudget = true
		return false
	}
	return true
}

// hasLasted reports whether the fast rounds are over, or have reached a verdict: the rest of the
// budget is then kept for the next fault.
func (i *investigation) hasLasted() bool {
	st, now := i.ep.Health(), time.Now()
	return i.rounds > fastRounds || st.State != health.Suspected && min(now.Sub(st.Since), now.Sub(i.began)) > fastRounds*probe.Round
}

// sent is a probe that has not ended.
type sent struct {
	conn *subConn
	probeKind
}

// probeWitness sends a service probe to another endpoint, if none has completed work
// lately: to one that may be a witness, or to any if all are ejected.
func (i *investigation) probeWitness(now time.Time) {
	others := i.ep.others()
	if len(others) == 0 {
		return
	}
	since := now
	if i.rounds > 1 {
		since = now.Add(-probe.Round) // an endpoint that served then is likely to serve now
	}
	if st := i.ep.Health(); st.State == health.Degraded && i.ep.mayBeCut() {
		since = st.Since
	} else if sent := i.ep.serviceProbeSent.Load(); sent != nil && sent.Before(since) {
		since = *sent
	}
	if slices.ContainsFunc(others, func(other *Endpoint) bool { return other.isWitness(since) }) {
		return
	}
	if fit := slices.DeleteFunc(slices.Clone(others), func(ep *Endpoint) bool { return !ep.State().Usable() }); len(fit) > 0 {
		others = fit
	}
	i.next++
	other := others[i.next%len(others)]
	if other.stalledFor(now) == 0 {
		i.send(other.conn(Calls), forService)
	}
	if kind := i.livenessKind(); kind == forLocal && !i.ep.hasLocalWitness(since) {
		i.send(other.conn(Calls), kind)
	}
}

// isAnswered reports whether the round is over: every connection has answered, and the
// endpoint has completed its service probe.
func (i *investigation) isAnswered() bool {
	now := time.Now()
	for _, s := range i.ep.connections() {
		if s.ready.Load() && s.unanswered(&s.probeSent, now) > 0 {
			return false
		}
	}
	return i.ep.stalledFor(now) == 0
}

// restart restarts the clocks of the connection's unanswered probes.
func (s *subConn) restart(now time.Time) {
	for _, probe := range []*atomic.Pointer[time.Time]{&s.probeSent, &s.livenessSent} {
		if s.unanswered(probe, now) > 0 {
			probe.Store(&now)
		}
	}
	if s.class == Calls && s.ep.stalledFor(now) > 0 {
		s.ep.serviceProbeSent.Store(&now)
	}
}

// await waits. Meanwhile it cuts in-flight work on an endpoint that cannot complete it, as
// soon as another endpoint serves.
func (i *investigation) await(wait time.Duration, ready func() bool) {
	i.p.prober.await(i.ep, wait, func() bool {
		now := time.Now()
		i.p.checks.cutStuck(i.ep, now)
		i.probeStatus(now)
		i.cutLocal(now)
		i.watchOthers(now)
		if !i.witnessed && i.ep.hasQuickWitness(i.ep.Health().Since) {
			i.witnessed, i.found = true, true
			if now.Sub(i.began) > probe.Round/2 {
				i.discardProbes()
			}
		}
		return ready()
	})
}

const (
	// statusPace is how often, and statusLimit for how long, a Lagging endpoint on which writes wait is
	// probed for its status: longer than an election timeout of etcd's, after which a member that
	// is cut off from its peers says that it has no leader.
	statusPace  = 250 * time.Millisecond
	statusLimit = DefaultWriteStallTimeout
)

// probeStatus requests the status of an endpoint while writes wait on it: they end if it says that it
// cannot serve. Its service probe may hang meanwhile. The answer counts for all clients of the process.
func (i *investigation) probeStatus(now time.Time) {
	lagging, due := now.Sub(i.ep.Health().Since), now.Add(-statusPace)
	if i.ep.State() != health.Lagging || lagging < statusPace || lagging > statusLimit || i.ep.healthEntry().AskedSince(health.ForLeader, due) {
		return
	}
	key := sent{i.ep.conn(Calls), forStatus}
	if _, pending := i.pending.Load(key); pending || !slices.ContainsFunc(i.ep.inflight.callsOn(nil), (*call).isWrite) {
		return
	}
	i.pending.Store(key, true)
	if !i.p.prober.send(key.conn, forStatus, func() { i.pending.Delete(key) }) {
		i.pending.Delete(key)
		return
	}
	i.statusSent = now
	i.ep.healthEntry().Asked(health.ForLeader, now)
}

// pause waits until it is time for another round.
func (i *investigation) pause(start time.Time) {
	pause, least := probe.Round, probe.Round
	if i.rounds >= fastRounds && !i.ep.needsAnother() {
		pause = rand.N(min(probe.Round<<min(i.rounds-fastRounds+1, 10), i.maxBackoff())) + probe.Round/2
	}
	if i.overBudget && i.p.reconnects.isUnproven() { // calls show who serves
		least = unprovenPause + rand.N(unprovenPause)
		pause = max(pause, least)
	}
	state := i.ep.State()
	i.await(time.Until(start.Add(pause)), func() bool {
		due := i.ep.needsAnother() && time.Since(start) >= least // an answer has arrived meanwhile
		return !i.isNeeded() || i.ep.State() != state || i.found || i.isRenewed() || due
	})
	if i.ep.State() != state || i.found {
		i.rounds = min(i.rounds, fastRounds-2)
		i.pending.Clear() // the next probe may be answered before older ones
	}
	i.found = false
}

// discardProbes discards the service probes sent while no endpoint served: they may still be queued
// behind older requests. It keeps how long the connections have been silent.
func (i *investigation) discardProbes() {
	i.pending.Clear()
	i.ep.serviceProbeSent.Store(nil)
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
