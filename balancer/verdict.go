package balancer

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// conclude ends a round: what was not answered speaks too, if others show that it is not
// the network, the cluster or this process that is silent. A line that carried something
// else meanwhile is neither silent nor heard: the answer may be behind that. before is what
// waited to be sent on each line when it was asked.
func (i *inquiry) conclude(before map[*line]backlog, start time.Time) {
	var silent []*line
	heard, busy, now := 0, false, time.Now()
	for l, was := range before {
		switch {
		case l.heardSince(start):
			heard++
		case l.receiving(now) || l.socket.backlog().movedSince(was):
			busy = true
		default:
			silent = append(silent, l)
		}
	}
	if heard > 0 || busy {
		i.silentFrom = time.Time{}
	} else if i.silentFrom.IsZero() {
		i.silentFrom = start
	}
	gone := heard == 0 && !busy && i.p.othersAlive(i.ep, i.silentFrom)
	switch {
	case gone:
		i.p.note(i.ep, health.Evidence{Kind: health.Missed, At: now, Detail: "probe not answered"})
	case heard > 0:
		i.mute(silent)
		if !busy {
			i.idleServer(start, now)
		}
	}
	i.giveUp(gone)
}

// mute closes lines that are silent while another line to the same endpoint is not: the
// connection is broken, and not the server.
func (i *inquiry) mute(silent []*line) {
	for _, l := range i.ep.lines {
		if !slices.Contains(silent, l) {
			l.missed = 0
			continue
		}
		if l.missed++; l.missed >= health.MissesToDead {
			l.missed = 0
			i.p.hangUp(l, status.Error(codes.Unavailable, "the connection does not answer, others to the same endpoint do"))
		}
	}
}

// idleServer holds it against a server that it lives and does not do its work.
func (i *inquiry) idleServer(start, now time.Time) {
	if i.ep.servedSince(start) {
		i.stalled = 0
		return
	}
	if i.stalled++; i.stalled == 1 {
		i.stallBegan = start
	}
	if i.stalled >= stallRounds && i.p.othersServe(i.ep, i.stallBegan) {
		i.p.note(i.ep, health.Evidence{
			Kind: health.Stalled, At: now, Detail: fmt.Sprintf("alive, and serves nothing for %v", now.Sub(i.stallBegan).Round(time.Millisecond)),
		})
	}
}

// giveUp closes the connections of an endpoint that cannot answer what is under way to
// it, once another one is known to serve. An endpoint can be Dead because it takes no new
// connections, and finish what it has: a server that ends gracefully. So it must be silent
// as well.
func (i *inquiry) giveUp(silent bool) {
	st := i.ep.Health()
	i.reset = i.reset && st.State == health.Dead
	switch {
	case st.State == health.Dead && silent && !i.reset: // a connection made since then has an inquiry of its own
		i.hangUp(st)
	case i.stuck() && i.p.othersServe(i.ep, st.Since):
		i.hangUp(st)
	}
}

// giveUpLagging does so in the midst of a round. When the leader is cut off from its peers
// these serve once they have elected another, which may be just after the verdict on the
// old one. A member that says that it has no leader has the rest of the round to hear of
// one, as the others have.
func (i *inquiry) giveUpLagging() {
	if i.ep.State() == health.Lagging {
		i.giveUp(false)
	}
}

// stuck reports whether the endpoint lives, cannot answer, and was not given up in this
// state.
func (i *inquiry) stuck() bool {
	st := i.ep.Health()
	return (st.State == health.Lagging || st.State == health.NoLeader) && !i.ep.resetIn.Equal(st.Since)
}

func (i *inquiry) hangUp(st *health.Status) {
	i.reset, i.ep.resetIn = st.State == health.Dead, st.Since
	i.ep.hangUp(status.Errorf(codes.Unavailable, "endpoint %s was given up: it is %v (%v)", i.ep.address, st.State, st.Evidence))
}

// hangUp closes all connections of the endpoint under the calls and streams on them.
func (e *Endpoint) hangUp(reason error) {
	for _, l := range e.lines {
		e.policy.hangUp(l, reason)
	}
	e.policy.options().Events.Reset(e, reason)
}

// hangUp closes a line's connection. The owners of what is on it are told before, so that
// they know why it ends, and for connections that the policy does not know.
func (p *policy) hangUp(l *line, reason error) {
	flights, flows := l.ep.on(l)
	for _, f := range flights {
		if f.a.Observer != nil {
			f.a.Observer.Cut(reason)
		}
	}
	cutAll(flows, reason)
	if l.socket.close() {
		return
	}
	p.mu.Lock()
	if l.sc != nil {
		l.shut()
		if l.lane == Calls && l.ep.ctx.Err() == nil {
			p.open(l)
		}
	}
	p.mu.Unlock()
	p.publish()
}

// others returns the connected endpoints but one.
func (p *policy) others(ep *Endpoint) []*Endpoint {
	return slices.DeleteFunc(slices.Clone(p.all()), func(other *Endpoint) bool { return other == ep || !other.Ready() })
}

// hasOther reports whether another endpoint serves at least as well as ep, by what is
// known.
func (p *policy) hasOther(ep *Endpoint) bool {
	mine := rank(ep.State(), Full)
	return slices.ContainsFunc(p.others(ep), func(other *Endpoint) bool {
		r := rank(other.State(), Full)
		return r <= mine && r <= rank(health.Suspected, Full)
	})
}

// othersAlive reports whether another endpoint was heard since.
func (p *policy) othersAlive(ep *Endpoint, since time.Time) bool {
	return slices.ContainsFunc(p.others(ep), func(other *Endpoint) bool { return other.lines[Calls].heardSince(since) })
}

// othersServe reports whether another endpoint has done its work since, and is in order.
func (p *policy) othersServe(ep *Endpoint, since time.Time) bool {
	return slices.ContainsFunc(p.others(ep), func(other *Endpoint) bool {
		return other.servedSince(since) && rank(other.State(), Full) <= rank(health.Suspected, Full)
	})
}

// askOthers has another endpoint probed if none has shown lately that it serves.
func (i *inquiry) askOthers(wait time.Duration) {
	others := i.p.others(i.ep)
	if len(others) == 0 || i.p.othersServe(i.ep, time.Now().Add(-wait)) {
		return
	}
	slices.SortStableFunc(others, func(a, b *Endpoint) int { return rank(a.State(), Full) - rank(b.State(), Full) })
	other := others[i.asked%len(others)]
	i.asked++
	i.p.mu.Lock()
	l := other.lines[Calls]
	sc, ready := l.sc, l.ready.Load()
	i.p.mu.Unlock()
	if ready {
		i.send(l, sc, i.p.options().Prober, wait)
	}
}
