package grpcpool

import (
	"cmp"
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
	draining := g.connsLocked(true)
	if len(draining) == 0 {
		return false
	}
	best := slices.MaxFunc(draining, func(a, b *conn) int { return cmp.Compare(a.inFlight, b.inFlight) })
	best.draining = false
	g.armShrinkerLocked()
	return true
}

// armShrinkerLocked schedules shrink while there are surplus connections.
func (g *group) armShrinkerLocked() {
	if g.shrinker == nil && g.idle > 0 && len(g.connsLocked(false)) > g.bounds.Min {
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
	active := g.connsLocked(false)
	slices.SortStableFunc(active, compareCosts)
	for _, c := range active[:max(len(active)-needed, 0)] {
		c.draining = true
		if c.inFlight == 0 {
			g.removeLocked(c)
		}
	}
	g.armShrinkerLocked()
}

// connsLocked returns the connections that drain, or those that do not.
func (g *group) connsLocked(draining bool) []*conn {
	return slices.DeleteFunc(slices.Clone(g.conns), func(c *conn) bool { return c.draining != draining })
}

// compareCosts puts connections in the order in which they are to drain: those that are not connected first, then those
// with the least in flight.
func compareCosts(a, b *conn) int {
	switch aReady, bReady := a.cc.GetState() == connectivity.Ready, b.cc.GetState() == connectivity.Ready; {
	case aReady && !bReady:
		return 1
	case bReady && !aReady:
		return -1
	}
	return cmp.Compare(a.inFlight, b.inFlight)
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
	for len(g.connsLocked(false)) < g.bounds.Min {
		if err := g.openLocked(true); err != nil {
			return nil, unavailable(err)
		}
	}
	return slices.Clone(g.conns), nil
}
