package grpcpool

import (
	"time"

	"google.golang.org/grpc/connectivity"
)

// Stats is a snapshot of a pool.
type Stats struct {
	Unary, Bulk, Streams ClassStats
}

// ClassStats is a snapshot of the connections of one class, with counts since the pool
// was created.
type ClassStats struct {
	// Connections are the class's connections, in the order in which they were opened.
	Connections []ConnStats
	// InFlight is the number of calls and streams on them.
	InFlight int
	// Waiting is the number of calls that wait for a stream.
	Waiting int

	// Calls is the number of started calls and streams.
	Calls uint64
	// Waited is how many of these had to wait, including those still waiting.
	Waited uint64
	// WaitTime is their total waiting time, without those still waiting.
	WaitTime time.Duration
	// Opened and Closed count connections.
	Opened, Closed uint64
}

// ConnStats is the state of one connection.
type ConnStats struct {
	// State is gRPC's state of the connection.
	State connectivity.State
	// InFlight is the number of calls and streams on it.
	InFlight int
	// StreamLimit is how many concurrent streams the servers allow, summed over all
	// servers that the channel is connected to. It is 0 while unknown, see
	// [Config].TransportCredentials. 1,048,576 or more means no limit.
	StreamLimit int
	// Draining is set if the connection gets no new calls and is closed after its last
	// one.
	Draining bool
}

// Stats returns the state of the pool. After Close it has only the counts.
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
	s := g.counts
	s.InFlight, s.Waiting = g.inFlight, g.waiters.Len()
	s.Connections = make([]ConnStats, 0, len(g.conns))
	for _, c := range g.conns {
		limit, _ := c.limits.total()
		s.Connections = append(s.Connections, ConnStats{
			State: c.cc.GetState(), InFlight: c.inFlight, StreamLimit: limit, Draining: c.draining,
		})
	}
	return s
}
