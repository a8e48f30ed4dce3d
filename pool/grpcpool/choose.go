package grpcpool

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/grpc/connectivity"
)

// candidates summarizes the connections of a group.
type candidates struct {
	free    *conn // connected, with a free stream: the one with the least in flight
	ready   *conn // connected: the one with the least in flight
	pending *conn // connecting, and no call waits on it
	failing *conn // cannot connect: the one with the least in flight

	active  int  // connections that are not draining
	making  int  // connecting
	each    int  // how many calls a new connection will carry
	coming  int  // how many free streams the pending ones will have
	guessed bool // the limit of a connected one is unknown
}

// chooseLocked returns the connection for the next call: the one with the least in flight among those
// that are connected and have a free stream. It returns nil if the call must wait, after it has
// opened or reused a connection if that helps.
//
// While none is connected, one call goes to each connecting one, so that the load balancing policy
// has a call to pick for; not more, because the server's stream limit is not known yet. If none
// can connect, all calls go there, to fail or to wait as gRPC decides.
func (g *group) chooseLocked() (*conn, error) {
	s := g.candidatesLocked()
	for s.active < g.bounds.Min {
		if err := g.openLocked(s.active > 0); err != nil && s.active == 0 {
			return nil, unavailable(err)
		} else if err != nil {
			break
		}
		s = g.candidatesLocked()
	}
	for s.free == nil && g.reclaimLocked() {
		s = g.candidatesLocked()
	}
	switch {
	case s.free != nil:
		return s.free, nil
	case s.ready != nil:
		if g.growLocked(&s) || s.coming > 0 || !s.guessed {
			return nil, nil
		}
		return s.ready, nil // its limit may not be reached
	case s.making > 0:
		return s.pending, nil
	default:
		return s.failing, nil
	}
}

func (g *group) candidatesLocked() candidates {
	each, _ := g.streamsLocked(g.conns...)
	s := candidates{each: each}
	for _, c := range g.conns {
		if c.draining {
			continue
		}
		s.active++
		switch c.stateLocked() {
		case connectivity.Ready:
			s.ready = lighter(s.ready, c)
			capacity, known := g.streamsLocked(c)
			if c.current() < capacity {
				s.free = lighter(s.free, c)
			}
			s.guessed = s.guessed || !known
		case connectivity.Idle, connectivity.Connecting:
			s.making++
			if c.current() == 0 {
				s.pending = c
			}
			s.coming += max(s.each-c.current(), 0)
		default:
			s.failing = lighter(s.failing, c)
		}
	}
	return s
}

// stateLocked returns gRPC's state of a connection, but Connecting as soon as its network connection is
// lost or draining: gRPC reports that a moment later. A connected one has reported its limit.
//
// An idle channel closes its network connections itself and reports Idle first, so they no longer
// count. The report may also be late; so retired connections count again if there are no others.
func (c *conn) stateLocked() connectivity.State {
	latest := c.limits.last.Load()
	state := c.cc.GetState()
	_, known := c.limits.total()
	switch {
	case state == connectivity.Idle:
		c.limits.retire(latest)
	case state == connectivity.Ready && !known && c.limits.generation.Load() > 0:
		c.limits.reopen()
		_, known = c.limits.total()
	}
	c.catchUpLocked()
	if state == connectivity.Ready && c.generation > 0 && !known {
		return connectivity.Connecting
	}
	return state
}

// lighter returns the connection with fewer calls in flight, the first if they are equal.
func lighter(a, b *conn) *conn {
	if a == nil || b.current() < a.current() {
		return b
	}
	return a
}

// streamsLocked returns how many concurrent calls a connection carries: the limit of the first of conns
// that knows one, else the latest that a server reported, and StreamsPerConnection at most. known is false
// if there is none.
func (g *group) streamsLocked(conns ...*conn) (n int, known bool) {
	n, known = g.limit, g.limitKnown
	for _, c := range conns {
		if total, reported := c.limits.total(); reported {
			n, known = total, true
			break
		}
	}
	switch {
	case known && g.perConn > 0:
		return min(n, g.perConn), true
	case g.perConn > 0:
		return g.perConn, true
	case known:
		return n, true
	}
	return assumedStreams, false
}

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
func (g *group) connsLocked(draining bool) (conns []*conn) {
	for _, c := range g.conns {
		if c.draining == draining {
			conns = append(conns, c)
		}
	}
	return conns
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

// openKept opens the minimum connections, and returns those that do not drain.
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
	return g.connsLocked(false), nil
}
