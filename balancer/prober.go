package balancer

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"

	"github.com/quorate/quorate/balancer/internal/probe"
	"github.com/quorate/quorate/health"
)

const (
	// probeTimeout is the timeout of a probe, but for those of a connection that has long been silent.
	probeTimeout = 4 * time.Second
	// watchInterval is how often an investigation checks whether other endpoints serve,
	// while its endpoint has work in flight.
	watchInterval = 25 * time.Millisecond

	// A response is late if it takes lateFactor times as long as calls to other
	// endpoints, and at least minLate.
	lateFactor = 5
	minLate    = 100 * time.Millisecond
)

// prober sends the probes of a client, within its budget, and records what is answered.
type prober struct {
	p      *policy
	budget budget
}

// probeKind is the kind of a probe.
type probeKind uint8

const (
	forService  probeKind = iota // service probe: does the endpoint do its work?
	forLiveness                  // liveness check: is it alive?
	forStatus                    // status: what is its role?
	forLocal                     // liveness check, for local reads that wait
)

func (o *Options) prober(kind probeKind) health.Prober {
	switch kind {
	case forService:
		return o.Service
	case forLiveness, forLocal:
		return o.Liveness
	default:
		return o.Status
	}
}

// needsProbes reports whether an endpoint is probed until its state changes.
func needsProbes(s health.State) bool {
	return s != health.Unknown && s != health.Serving && s != health.Draining
}

// canProbe reports whether endpoints are probed. A single endpoint is not: the result
// would change nothing.
func (pr *prober) canProbe() bool {
	o := pr.p.options()
	return o.Service != nil && len(o.Monitor.Endpoints()) > 1
}

// leavesUnprobed reports whether no client probes the endpoint. In the shared table, other clients do.
func (pr *prober) leavesUnprobed(ep *Endpoint) bool { return !pr.canProbe() && !ep.joined.Load() }

// readmitUnprobed ends a suspicion where no probe would: the detail is the only evidence.
func (pr *prober) readmitUnprobed(ep *Endpoint, now time.Time, detail string) {
	if needsProbes(ep.State()) && pr.leavesUnprobed(ep) && !ep.onlyCallsReadmit() {
		pr.p.note(ep, health.Evidence{Kind: health.Served, At: now, Detail: detail})
	}
}

// suspect notes a suspicion of an endpoint.
func (pr *prober) suspect(ep *Endpoint, now time.Time, why string) {
	if pr.p.options().DisableSuspicion {
		return
	}
	pr.p.note(ep, health.Evidence{Kind: health.Suspicious, At: now, Detail: why})
	if !pr.canProbe() {
		pr.p.checks.checkConn(ep.conn(Calls))
	}
	pr.investigate(ep)
}

// connected finds out whether an endpoint with a new connection can be used.
func (pr *prober) connected(s *subConn) {
	if s.class != Calls {
		return
	}
	pr.p.options().Monitor.NotifyImproved()
	if needsProbes(s.ep.State()) {
		pr.readmitUnprobed(s.ep, time.Now(), "connected")
		pr.investigate(s.ep)
	} else if pr.p.proof.wanted(s.ep) {
		pr.p.proof.probe(s)
	}
	if pr.wantsRoles() {
		pr.send(s, forStatus, nil)
	}
}

// wantsRoles reports whether the strategy needs roles and there is a status probe.
func (pr *prober) wantsRoles() bool {
	_, ok := pr.p.strategy().(RoleAware)
	return ok && pr.p.options().Status != nil
}

// askRoles requests the status of the endpoints, if the strategy needs roles. Unusable
// endpoints are probed when they reconnect or when a later term appears.
func (pr *prober) askRoles() {
	if !pr.wantsRoles() {
		return
	}
	for _, ep := range pr.p.all() {
		if ep.State().Usable() {
			pr.send(ep.conn(Calls), forStatus, nil)
		}
	}
}

// silentStream is why an endpoint with a silent stream is suspected.
const silentStream = "a stream is silent for longer than usual"

// quietFor is how long a connection with quiet streams may be silent.
const quietFor = health.MaxPace * 3 / 4

// checkStream probes the connection of a silent stream: with a service probe if the
// stream was active, because a member that is partitioned from its peers is alive but
// sends no events. If the endpoint is the only one, or works over other connections, this one is checked. Where there
// are others, checks leave faultReserve in the budget, so that a fault that they find can be confirmed.
func (pr *prober) checkStream(s *stream, now time.Time) {
	o, ep, conn, since := pr.p.options(), s.conn.ep, s.conn, now.Add(-s.silence(now))
	quiet := s.silence(now) >= health.MaxPace
	switch {
	case o.Service == nil && len(pr.p.all()) > 1:
		if !quiet {
			pr.suspect(ep, now, silentStream)
		}
	case quiet && conn.heard.Since(now) < quietFor, !quiet && conn.completedSince(since): // it works, over the same connection
	case len(pr.p.all()) < 2:
		pr.p.checks.checkConn(conn)
	case quiet && ep.healthEntry().Silence(now) < quietFor, !quiet && ep.healthEntry().CompletedSince(since):
		pr.p.checks.checkWithReserve(conn, faultReserve)
	default:
		kind := forService
		if quiet {
			kind = forStatus
		}
		pr.p.start(func() {
			if pr.sendWithReserve(conn, kind, probeTimeout, faultReserve, nil) {
				pr.awaitStream(conn, quiet, time.Now())
			}
		})
	}
}

// awaitStream waits for the answer to the probe that was sent over the connection of a silent stream.
func (pr *prober) awaitStream(conn *subConn, quiet bool, sent time.Time) {
	ep, wait := conn.ep, probe.Round+conn.ep.tolerance()
	answered := pr.await(ep, wait, func() bool { return conn.heard.After(sent) && (quiet || ep.servedSince(sent)) })
	switch now := time.Now(); {
	case answered || now.Sub(sent) > wait+starved:
	case ep.healthEntry().CompletedSince(sent), quiet && ep.healthEntry().AliveSince(sent):
		pr.p.checks.checkConn(conn)
	case quiet:
		pr.suspect(ep, now, "no answer on a quiet connection")
	default:
		pr.suspect(ep, now, silentStream)
	}
}

// servedSince reports whether the endpoint has completed work that began at t or later, or no service
// probe is unanswered.
func (e *Endpoint) servedSince(t time.Time) bool {
	return e.healthEntry().CompletedSince(t) || e.serviceProbeSent.Load() == nil
}

// send sends a probe over a connection, if it is ready and the budget allows it. done, if not
// nil, is called when the probe ends.
func (pr *prober) send(s *subConn, kind probeKind, done func()) bool {
	return pr.sendWithReserve(s, kind, probeTimeout, pr.reserve(s, kind), done)
}

// reserve returns how many probes a probe leaves in the budget.
func (pr *prober) reserve(s *subConn, kind probeKind) float64 {
	if kind == forLocal {
		return -localOverdraft
	}
	if kind == forStatus || pr.onlyProbesTell() || pr.p.proof.wanted(s.ep) || s.ep.hasQuickWitness(s.ep.stuckSince(s.ep.Health())) {
		return 0
	}
	return probeReserve
}

// onlyProbesTell reports whether an outage has just ended and only probes, not calls, can show which endpoints
// serve. Streams wait for that.
func (pr *prober) onlyProbesTell() bool {
	return pr.p.reconnects.isUnproven() &&
		!slices.ContainsFunc(pr.p.all(), func(ep *Endpoint) bool { return ep.InFlight() > 0 })
}

// sendWithReserve is send with the given timeout and reserve.
func (pr *prober) sendWithReserve(s *subConn, kind probeKind, timeout time.Duration, reserve float64, done func()) bool {
	return pr.sendWithBudget(s, kind, timeout, func(now time.Time) bool { return pr.budget.take(now, reserve) }, done)
}

// sendWithBudget is send with the given timeout and budget.
func (pr *prober) sendWithBudget(s *subConn, kind probeKind, timeout time.Duration, take func(now time.Time) bool, done func()) bool {
	pr.p.mu.Lock()
	sc, ready := s.sc, s.ready.Load()
	pr.p.mu.Unlock()
	now, prober := time.Now(), pr.p.options().prober(kind)
	if !ready || prober == nil || !take(now) {
		return false
	}
	pr.p.options().Monitor.probes.Add(1)
	s.noteProbe(kind, now)
	if kind == forService {
		s.ep.noteServiceProbe(now)
	}
	return pr.p.start(func() {
		if done != nil {
			defer done()
		}
		if kind == forService {
			defer s.ep.serviceEnded(now)
		}
		ctx, cancel := context.WithTimeout(s.ep.lifetime.Load(), timeout)
		defer cancel()
		pr.probe(ctx, s, sc, prober, now)
	})
}

// probe sends a probe and records its report.
func (pr *prober) probe(ctx context.Context, s *subConn, sc balancer.SubConn, prober health.Prober, sent time.Time) {
	producer, done := sc.GetOrBuildProducer(probeConnBuilder{})
	defer done()
	prober.Probe(ctx, probeConn{producer.(grpc.ClientConnInterface), s}, func(r health.Report) { pr.take(s, r, sent) })
}

// take records the report of a probe that was sent at sent.
func (pr *prober) take(s *subConn, r health.Report, sent time.Time) {
	now, ep := time.Now(), s.ep
	s.heardAt(now, s.made.Load())
	if r.Info != nil {
		ep.healthEntry().SetInfo(r.Info, now)
	}
	ev := health.Evidence{Kind: r.Kind, At: now, Err: r.Err, Detail: cmp.Or(r.Detail, "probe")}
	if r.Kind == health.Served {
		pr.p.proof.completed(s, sent, now)
		ep.ServedInTerm(r.Term, sent)
		ep.serviceProbeSent.Store(nil)
		var late *time.Time
		if s.class == Calls && now.Sub(sent) > pr.late(ep, sent) {
			late = &now
		}
		// Probes that waited in one stall are answered late together: that is one late answer.
		before := ep.late.Swap(late)
		again := before != nil && now.Sub(*before) > probe.Round/2 || ep.State() == health.Slow
		if late != nil {
			ev.Detail = "probe answered after " + now.Sub(sent).Round(time.Millisecond).String()
			ev.Kind = health.Answered // a stall may have ended: the next probe decides
			if again {
				ev.Kind = health.Late
			}
		}
	}
	if ev.Kind == health.Served && ep.onlyCallsReadmit() {
		ev.Kind = health.Answered
	}
	pr.p.note(ep, ev)
	if ep.State() == health.Suspected {
		pr.p.publish() // it may serve local calls
	}
	ep.signal()
}

// late returns the latency from which a probe's response is late, compared with other
// endpoints that have completed work meanwhile.
func (pr *prober) late(ep *Endpoint, sent time.Time) time.Duration {
	var sum time.Duration
	n := 0
	for _, other := range ep.others() {
		if k := other.healthEntry(); k.CompletedSince(sent) && rank(other.State(), needFull) == 0 {
			sum += max(k.Latency(), k.Latest())
			n++
		}
	}
	if n == 0 {
		return probeTimeout
	}
	return max(minLate, lateFactor*sum/time.Duration(n))
}

// noteServiceProbe records a service probe.
func (e *Endpoint) noteServiceProbe(now time.Time) {
	if oldest := e.serviceProbeSent.Load(); oldest == nil || e.healthEntry().CompletedSince(*oldest) {
		e.serviceProbeSent.Store(&now)
	}
}

// serviceEnded records that a service probe has ended.
func (e *Endpoint) serviceEnded(sent time.Time) {
	if oldest := e.serviceProbeSent.Load(); oldest != nil && !oldest.After(sent) {
		e.serviceProbeSent.CompareAndSwap(oldest, nil)
	}
}

// stalledFor returns how long a service probe has been unanswered, 0 if none is.
func (e *Endpoint) stalledFor(now time.Time) time.Duration {
	oldest := e.serviceProbeSent.Load()
	if oldest == nil || e.healthEntry().CompletedSince(*oldest) {
		return 0
	}
	return max(now.Sub(*oldest), 1)
}

// needsAnother reports whether another probe should follow soon: a Slow endpoint was
// timely, or any other one was late.
func (e *Endpoint) needsAnother() bool {
	return (e.State() == health.Slow) == (e.late.Load() == nil) && !e.onlyCallsReadmit()
}

// signal wakes the goroutine that waits for evidence about the endpoint.
func (e *Endpoint) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// await waits until ready returns true, and reports whether it did within the time. It calls ready upon
// new evidence and every watchInterval, or every probe.Round in longer waits in which no work may have
// to be cut, and right after an outage of all endpoints.
func (pr *prober) await(ep *Endpoint, wait time.Duration, ready func() bool) bool {
	timeout := time.After(wait)
	for !ready() {
		interval := watchInterval
		if wait > probe.Round && !ep.mayBeCut() || pr.p.reconnects.isUnproven() {
			interval = probe.Round
		}
		select {
		case <-ep.wake:
		case <-time.After(interval):
		case <-timeout:
			return ready()
		case <-ep.Removed():
			return false
		}
	}
	return true
}
