package grpcpool

import (
	"slices"
	"time"

	"google.golang.org/grpc/connectivity"
)

// closeDelay is how long a surplus connection stays open. A stream whose context has ended no
// longer counts, although gRPC is still ending it: if the connection closed meanwhile, its
// owner would get the error of the connection instead of the context's.
const closeDelay = time.Second

// openLocked adds a connection, which gRPC establishes in the background if connect is true, and with
// the first call otherwise. It does no I/O.
func (g *group) openLocked(connect bool) error {
	c := new(conn)
	c.limits = newStreamLimits(g.limitChanged, func() { g.leaves(c) })
	cc, err := g.dial(c.limits)
	if err != nil {
		return err
	}
	c.cc = cc
	g.conns = append(g.conns, c)
	g.counts.Opened++
	g.armShrinkerLocked()
	g.background.Go(func() {
		if connect {
			cc.Connect()
		}
		g.watch(c)
	})
	return nil
}

// growLocked opens the connections that the waiters need in addition to the connecting ones, and one for
// a call that is about to wait. It reports whether it opened one. It opens none if that would not
// help: while another one fails to connect, or if the server allows no streams.
func (g *group) growLocked(s *candidates) bool {
	if s.failing != nil || s.each == 0 {
		return false
	}
	grown := false
	for need := max(g.waiters.Len(), 1) - s.coming; need > 0 && len(g.conns) < g.bounds.Max; need -= s.each {
		if g.openLocked(true) != nil {
			break
		}
		grown = true
	}
	return grown
}

// reclaimLocked reuses a draining connection, the one with the most in flight, and reports whether there
// was one.
func (g *group) reclaimLocked() bool {
	var best *conn
	for _, c := range g.conns {
		if c.draining && (best == nil || c.inFlight > best.inFlight) {
			best = c
		}
	}
	if best == nil {
		return false
	}
	best.draining = false
	g.armShrinkerLocked()
	return true
}

// armShrinkerLocked schedules shrink while there are surplus connections.
func (g *group) armShrinkerLocked() {
	if g.shrinker == nil && g.idle > 0 && g.activeLocked() > g.bounds.Min {
		g.peak = g.inFlight + g.waiters.Len()
		g.shrinker = time.AfterFunc(g.idle, g.shrink)
	}
}

// shrink drains the connections that were not needed since its last run.
func (g *group) shrink() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shrinker = nil
	if g.closed {
		return
	}
	each, _ := g.streamsLocked(g.conns...)
	each = max(each, 1)
	needed := max(g.bounds.Min, (g.peak+each-1)/each)
	for n := g.activeLocked() - needed; n > 0; n-- {
		g.drainLocked()
	}
	g.armShrinkerLocked()
}

func (g *group) activeLocked() int {
	n := 0
	for _, c := range g.conns {
		if !c.draining {
			n++
		}
	}
	return n
}

// drainLocked selects a connection to drain: one that is not connected first, then the one with the
// least in flight.
func (g *group) drainLocked() {
	var worst *conn
	for _, c := range g.conns {
		if !c.draining && (worst == nil || costsLess(c, worst)) {
			worst = c
		}
	}
	worst.draining = true
	if worst.inFlight == 0 {
		g.removeLocked(worst)
	}
}

func costsLess(a, b *conn) bool {
	aReady, bReady := a.cc.GetState() == connectivity.Ready, b.cc.GetState() == connectivity.Ready
	if aReady != bReady {
		return !aReady
	}
	return a.inFlight < b.inFlight
}

// removeLocked removes a connection with nothing in flight. It is closed a little later.
func (g *group) removeLocked(c *conn) {
	g.conns = slices.DeleteFunc(g.conns, func(other *conn) bool { return other == c })
	g.counts.Closed++
	g.background.Go(func() {
		select {
		case <-time.After(closeDelay):
		case <-g.closing:
		}
		c.cc.Close()
	})
}

// openFirst adds the first connection, which connects with the first call.
func (g *group) openFirst() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.openLocked(false)
}

// openKept opens the minimum connections, and returns them.
func (g *group) openKept() ([]*conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	for g.activeLocked() < g.bounds.Min {
		if err := g.openLocked(true); err != nil {
			return nil, unavailable(err)
		}
	}
	return slices.Clone(g.conns), nil
}
