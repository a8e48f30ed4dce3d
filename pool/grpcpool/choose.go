package grpcpool

import (
	"google.golang.org/grpc/connectivity"
)

// candidates is what can be said of the connections of a group at one moment.
type candidates struct {
	free    *conn // connected and with a stream left: the least in flight
	ready   *conn // connected: the least in flight
	pending *conn // not connected yet, and nothing waits for that on it
	failing *conn // cannot connect: the least in flight

	active  int  // connections that are not draining
	making  int  // that are not connected yet
	each    int  // how many calls at a time a new connection will carry
	coming  int  // free streams that the pending ones will have
	guessed bool // the limit of a connected one is not known
}

// choose returns the connection for the next call: the one with the least in flight among
// those that are connected and have a stream left. It returns nil if the call should wait,
// because there is none and that will change; it has seen to that then. It is called with
// the lock held.
//
// While nothing is connected, one call goes to each connection that is being made, so that
// the load balancing policy has something to pick for, and no more: how many streams its
// server allows is not known before. If none can be made, all calls go there, to get their
// error or to wait as gRPC has it.
func (g *group) choose() (*conn, error) {
	s := g.candidates()
	for s.active < g.bounds.Min {
		if err := g.open(s.active > 0); err != nil && s.active == 0 {
			return nil, unavailable(err)
		} else if err != nil {
			break
		}
		s = g.candidates()
	}
	if s.free == nil && g.reclaim() {
		s = g.candidates()
	}
	switch {
	case s.free != nil:
		return s.free, nil
	case s.ready != nil:
		if g.grow(&s) || s.coming > 0 || !s.guessed {
			return nil, nil
		}
		return s.ready, nil // its limit is not known to be reached
	case s.making > 0:
		return s.pending, nil
	default:
		return s.failing, nil
	}
}

func (g *group) candidates() candidates {
	s := candidates{each: g.expected()}
	for _, c := range g.conns {
		if c.draining {
			continue
		}
		s.active++
		switch c.state() {
		case connectivity.Ready:
			s.ready = lighter(s.ready, c)
			capacity, known := g.capacity(c)
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

// state returns gRPC's state of a connection, but Connecting as soon as the network connection
// is left: gRPC says so a moment later. One that is connected has told its limit. It is called
// with the lock held.
//
// A channel that is Idle closes its network connections itself, and says Idle first: those that
// there were before are left. It may also say so a moment longer than it is; so what was
// retired counts again if it turns out that there is nothing else.
func (c *conn) state() connectivity.State {
	latest := c.limits.last.Load()
	state := c.cc.GetState()
	_, known := c.limits.total()
	switch {
	case state == connectivity.Idle:
		c.limits.retire(latest)
	case state == connectivity.Ready && !known && c.limits.ages.Load() > 0:
		c.limits.reopen()
		_, known = c.limits.total()
	}
	c.catchUp()
	if state == connectivity.Ready && c.age > 0 && !known {
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

// capacity returns how many calls at a time a connection that is connected may carry, and
// whether that is more than a guess.
func (g *group) capacity(c *conn) (n int, known bool) {
	if n, known = c.limits.total(); known {
		return g.bounded(n), true
	}
	return g.usual()
}

// expected returns how many calls at a time a new connection will carry: as many as
// another one does.
func (g *group) expected() int {
	for _, c := range g.conns {
		if n, known := c.limits.total(); known {
			return g.bounded(n)
		}
	}
	n, _ := g.usual()
	return n
}

// usual returns how many calls at a time the latest connection carried, and whether that is
// more than a guess.
func (g *group) usual() (n int, known bool) {
	switch {
	case g.heardLimit:
		return g.bounded(g.limit), true
	case g.perConn > 0:
		return g.perConn, true
	default:
		return assumedStreams, false
	}
}

func (g *group) bounded(n int) int {
	if g.perConn > 0 {
		return min(n, g.perConn)
	}
	return n
}
