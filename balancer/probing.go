package balancer

import (
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/health"
)

const (
	// probeRound is how long a probe has before it counts as missed, and the pace of
	// probes while an endpoint is a suspect. With two rounds that are missed a frozen
	// member is ejected about half a second after it became a suspect. Where calls
	// usually take longer, rounds do too, up to maxProbeRound.
	probeRound    = 250 * time.Millisecond
	maxProbeRound = time.Second

	// probeRest is the longest pause between the probes of an endpoint that cannot serve,
	// while nobody waits for it.
	probeRest = 5 * time.Second

	// stuckLook is how often it is looked whether others serve, while an endpoint is alive
	// and cannot.
	stuckLook = 25 * time.Millisecond

	// maxAsked bounds where an inquiry begins to ask others, so that a thousand clients of
	// an endpoint in trouble do not all ask the same one.
	maxAsked = 1 << 10

	// stallRounds is in how many rounds in a row a server that is alive must have failed
	// to do its work before that is held against it.
	stallRounds = 2

	// An answer is late if it takes slowFactor times as long as calls to others do, and
	// slowFloor at least.
	slowFactor = 5
	slowFloor  = 100 * time.Millisecond
)

// scope says what a probe is for.
type scope uint8

const (
	look        scope = iota // one cheap probe of a quiet connection
	investigate              // probes until the endpoint serves, or is gone
)

// suspect makes an endpoint a suspect because of its silence.
func (p *policy) suspect(ep *Endpoint, now time.Time, why string) {
	p.note(ep, health.Evidence{Kind: health.Silent, At: now, Detail: why})
	p.probe(ep, investigate)
}

// needsProbes reports whether an endpoint in the state is probed until it leaves it.
func needsProbes(s health.State) bool {
	switch s {
	case health.Unknown, health.Serving, health.Draining:
		return false
	default:
		return true
	}
}

// connected probes an endpoint whose new connection does not show by itself that it can
// be used, or whose role is wanted.
func (p *policy) connected(l *line) {
	if l.lane != Calls {
		return
	}
	switch {
	case !needsProbes(l.ep.State()):
	case p.options().Prober == nil:
		// That it connects is all that will be known of it.
		p.note(l.ep, health.Evidence{Kind: health.Served, At: time.Now(), Detail: "connected"})
	default:
		p.probe(l.ep, investigate)
		return
	}
	if _, ok := p.strategy.(RoleAware); ok {
		p.probe(l.ep, look)
	}
}

// probe begins to probe an endpoint, if there is anything to find out.
func (p *policy) probe(ep *Endpoint, s scope) {
	if p.options().Prober == nil || (s == investigate && !needsProbes(ep.State())) || !ep.probing.CompareAndSwap(false, true) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		ep.probing.Store(false)
		return
	}
	p.probes.Go(func() { p.run(ep, s) })
}

// run probes an endpoint until nothing more is to be found out.
func (p *policy) run(ep *Endpoint, s scope) {
	i := &inquiry{p: p, ep: ep, asked: rand.IntN(maxAsked), news: make(chan struct{}, 1)}
	if s == look {
		i.glance()
	}
	// Without a connection for calls there is nothing to find out that the next one would
	// not show.
	for needsProbes(ep.State()) && ep.Ready() && i.round() {
		i.rest()
	}
	i.underWay.Wait()
	ep.probing.Store(false)
	if needsProbes(ep.State()) && ep.Ready() && ep.ctx.Err() == nil {
		p.probe(ep, investigate) // it connected while this ended
	}
}

// probeRound returns how long a probe has now.
func (p *policy) probeRound() time.Duration {
	return min(max(probeRound, p.classes.suspectAfter()), maxProbeRound)
}
