package balancer

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/balancer"

	"github.com/quorate/quorate/health"
)

// inquiry is the probing of one endpoint, from its first round to its last.
type inquiry struct {
	p  *policy
	ep *Endpoint

	asked   int  // how often others were
	idle    int  // rounds in a row in which nobody wanted the endpoint
	stalled int  // rounds in a row in which it lived and did not serve
	reset   bool // it is dead, and its connections were closed under what was on them

	silentFrom time.Time // when the first of the latest silent rounds began, zero after a word
	stallBegan time.Time // the same of the stalled rounds

	last time.Time

	news     chan struct{} // has room for one; something was told
	underWay sync.WaitGroup
}

// glance asks once, in the cheap way. An endpoint that does not answer becomes a suspect.
func (i *inquiry) glance() {
	targets := i.quietLines()
	if len(targets) == 0 {
		return
	}
	start, wait := time.Now(), i.p.probeRound()
	for l, sc := range targets {
		i.send(l, sc, i.p.options().Liveness, wait)
	}
	i.await(wait, func() bool { return heardAll(targets, start) })
	if !heardAll(targets, start) && i.fair(start, wait) {
		i.p.note(i.ep, health.Evidence{Kind: health.Missed, At: time.Now(), Detail: "no answer on a quiet connection"})
	}
}

// quietLines returns the lines to glance at: those with streams, whose silence says nothing,
// and without any that of the calls. A connection that carries nothing is nobody's loss.
func (i *inquiry) quietLines() map[*line]balancer.SubConn {
	all := i.targets()
	quiet := make(map[*line]balancer.SubConn)
	for l, sc := range all {
		if _, flows := i.ep.on(l); len(flows) > 0 {
			quiet[l] = sc
		}
	}
	if len(quiet) == 0 && all[i.ep.lines[Calls]] != nil {
		quiet[i.ep.lines[Calls]] = all[i.ep.lines[Calls]]
	}
	return quiet
}

// round asks whether the endpoint does its work, and draws conclusions from the answers,
// and from their absence. It returns false when there is no connection to ask over.
func (i *inquiry) round() bool {
	targets := i.targets()
	if len(targets) == 0 || i.ep.ctx.Err() != nil {
		return false
	}
	start, wait := time.Now(), i.p.probeRound()
	i.last = start
	before := make(map[*line]backlog, len(targets))
	for l, sc := range targets {
		before[l] = l.socket.backlog()
		i.send(l, sc, i.p.options().Prober, 4*wait)
	}
	i.askOthers(wait)
	i.await(wait, func() bool {
		return heardAll(targets, start) && (i.ep.servedSince(start) || time.Since(start) >= i.pace())
	})
	if i.fair(start, wait) {
		i.conclude(before, start)
	}
	return true
}

// fair reports whether this process was awake to hear answers in time.
func (i *inquiry) fair(start time.Time, wait time.Duration) bool {
	return time.Since(start) < wait+starved && i.ep.ctx.Err() == nil
}

// targets returns the lines that can carry a probe, with their connections.
func (i *inquiry) targets() map[*line]balancer.SubConn {
	i.p.mu.Lock()
	defer i.p.mu.Unlock()
	targets := make(map[*line]balancer.SubConn)
	for _, l := range i.ep.lines {
		if l.ready.Load() {
			targets[l] = l.sc
		}
	}
	return targets
}

func heardAll(targets map[*line]balancer.SubConn, since time.Time) bool {
	for l := range targets {
		if !l.heardSince(since) {
			return false
		}
	}
	return true
}

// send sends a probe over a line. Its answer may come rounds later: an endpoint far away
// is not dead.
func (i *inquiry) send(l *line, sc balancer.SubConn, prober health.Prober, patience time.Duration) {
	i.underWay.Go(func() {
		ctx, cancel := context.WithTimeout(i.ep.ctx, patience)
		defer cancel()
		sent := time.Now()
		l.probe(ctx, sc, prober, func(r health.Report) {
			i.p.told(l, sent, r)
			select {
			case i.news <- struct{}{}:
			default:
			}
		})
	})
}

// await returns when enough is known, or the time is up. An endpoint that lags is given up
// meanwhile, as soon as another one is seen to serve.
func (i *inquiry) await(wait time.Duration, enough func() bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for !enough() {
		var look <-chan time.Time
		if i.stuck() {
			look = time.After(stuckLook)
		}
		select {
		case <-i.news:
		case <-look:
			i.giveUpLagging()
		case <-timer.C:
			return
		case <-i.ep.ctx.Done():
			return
		}
	}
}

// told takes in what a probe, sent at that time, was answered.
func (p *policy) told(l *line, sent time.Time, r health.Report) {
	now := time.Now()
	l.hear(now)
	if r.Role != nil {
		l.ep.entry.Learned(*r.Role, now)
	}
	ev := health.Evidence{Kind: r.Kind, At: now, Err: r.Err, Detail: "probe"}
	if r.Kind == health.Served {
		l.ep.served.Store(now.UnixNano())
		if l.lane == Calls && now.Sub(sent) > p.late(l.ep) {
			ev.Kind = health.Late
			ev.Detail = "probe answered after " + now.Sub(sent).Round(time.Millisecond).String()
		}
	}
	p.note(l.ep, ev)
}

// late returns from when on an answer of an endpoint is late, compared with others.
func (p *policy) late(ep *Endpoint) time.Duration {
	var usual []time.Duration
	for _, other := range ep.Siblings() {
		if d := other.took.value(); other != ep && d > 0 && rank(other.State(), Full) == 0 {
			usual = append(usual, d)
		}
	}
	if len(usual) == 0 {
		return maxProbeRound
	}
	slices.Sort(usual)
	return max(slowFloor, slowFactor*usual[len(usual)/2])
}

// pace returns how long a round of an endpoint lasts that was heard. One that says itself
// that it has no leader need not be given longer because calls take long elsewhere.
func (i *inquiry) pace() time.Duration {
	if i.ep.State() == health.NoLeader {
		return probeRound
	}
	return i.p.probeRound()
}

// rest waits until it is time for another round. While somebody wants the endpoint that
// is at once after a full round; otherwise the pauses grow.
func (i *inquiry) rest() {
	now := time.Now()
	pause := i.pace()
	if i.p.wanted(now) && !i.settled() {
		i.idle = 0
	} else {
		i.idle++
		pause = jittered(min(pause<<min(i.idle, 8), probeRest))
	}
	i.await(time.Until(i.last.Add(pause)), func() bool { return false })
}

// settled reports whether the endpoint is what it is by its own word, while others serve:
// a learner waits for its promotion, perhaps for ever, and nobody for the learner.
func (i *inquiry) settled() bool {
	switch i.ep.State() {
	case health.Learner, health.NotServing:
		return i.p.hasOther(i.ep)
	default:
		return false
	}
}

// wanted reports whether calls were made recently.
func (p *policy) wanted(now time.Time) bool {
	return slices.ContainsFunc(p.all(), func(ep *Endpoint) bool { return ep.wanted(now) })
}
