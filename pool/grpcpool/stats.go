package grpcpool

import (
	"time"

	"google.golang.org/grpc/connectivity"
)

// Stats is the state of a pool at one moment.
type Stats struct {
	Unary, Bulk, Streams ClassStats
}

// ClassStats is the state of the connections of one class, and what was counted since the
// pool was made.
type ClassStats struct {
	// Connections are the class's connections, in the order in which they were opened.
	Connections []ConnStats
	// InFlight is the number of calls and streams on them.
	InFlight int
	// Waiting is the number of calls that wait for a stream.
	Waiting int

	// Calls is the number of calls and streams that were asked for.
	Calls uint64
	// Waited is how many of these had to wait, with those that still do.
	Waited uint64
	// WaitTime is for how long they did, together, without those that still do.
	WaitTime time.Duration
	// Opened and Closed count connections.
	Opened, Closed uint64
}

// ConnStats is the state of one connection.
type ConnStats struct {
	// State is what gRPC says of it.
	State connectivity.State
	// InFlight is the number of calls and streams on it.
	InFlight int
	// StreamLimit is how many streams at a time the server allows, all servers together
	// that the channel is connected to. It is 0 while that is not known, see
	// [Config].TransportCredentials. From 1,048,576 on it stands for no limit.
	StreamLimit int
	// Draining is true if it is given no more calls, and closed when none is left.
	Draining bool
}

type counters struct {
	calls, waited, opened, closed uint64
	waitTime                      time.Duration
}

// Stats returns the state of the pool. After Close, only the counts are left.
func (p *ClientConn) Stats() Stats {
	return Stats{
		Unary:   p.groups[Unary].stats(),
		Bulk:    p.groups[Bulk].stats(),
		Streams: p.groups[Streams].stats(),
	}
}

func (g *group) stats() ClassStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := ClassStats{
		Connections: make([]ConnStats, 0, len(g.conns)),
		InFlight:    g.inFlight,
		Waiting:     g.waiters.Len(),
		Calls:       g.counters.calls,
		Waited:      g.counters.waited,
		WaitTime:    g.counters.waitTime,
		Opened:      g.counters.opened,
		Closed:      g.counters.closed,
	}
	for _, c := range g.conns {
		limit, _ := c.limits.total()
		s.Connections = append(s.Connections, ConnStats{
			State: c.cc.GetState(), InFlight: c.inFlight, StreamLimit: limit, Draining: c.draining,
		})
	}
	return s
}
