package grpcpool

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/protobuf/proto"
)

// Class is a class of calls. Each class has separate connections, so that the calls of
// one never wait behind the bytes of another.
type Class uint8

const (
	// Unary is the class of unary calls with small messages.
	Unary Class = iota
	// Bulk is the class of calls with large messages: unary calls with a large request, and calls
	// assigned by [UseClass] or [Config].Methods.
	Bulk
	// Streams is the class of streaming calls. Assign streams with large messages to Bulk if they
	// would delay other streams.
	Streams

	classes = 3
)

// classFields has the names of the classes' fields in [Config].
var classFields = [classes]string{Unary: "Unary", Bulk: "Bulk", Streams: "Streams"}

// String returns the name of the class in lower case.
func (c Class) String() string {
	if !c.valid() {
		return fmt.Sprintf("class %d", uint8(c))
	}
	return strings.ToLower(classFields[c])
}

func (c Class) valid() bool { return c < classes }

// UseClass returns a call option that sets the class of a call, regardless of its method
// and size. It takes precedence over [Config].Methods. It has no effect on connections
// other than a [ClientConn].
func UseClass(c Class) grpc.CallOption { return classOption{class: c} }

type classOption struct {
	grpc.EmptyCallOption
	class Class
}

// ReturnsNothing says that calls with the option may be hedged, see package hedge.
func (classOption) ReturnsNothing() {}

// classifier determines the class of a call.
type classifier struct {
	methods   map[string]Class // by full name, or by "/package.Service/"
	bulkBytes int              // negative: size is ignored
}

func (c *classifier) classOf(method string, request any, usual Class, opts []grpc.CallOption) Class {
	for _, o := range slices.Backward(opts) {
		if o, ok := o.(classOption); ok {
			return o.class
		}
	}
	if class, ok := c.listed(method); ok {
		return class
	}
	if usual == Unary && c.bulkBytes >= 0 {
		if m, ok := request.(proto.Message); ok && proto.Size(m) >= c.bulkBytes {
			return Bulk
		}
	}
	return usual
}

func (c *classifier) listed(method string) (Class, bool) {
	if len(c.methods) == 0 {
		return 0, false
	}
	if class, ok := c.methods[method]; ok {
		return class, true
	}
	class, ok := c.methods[method[:strings.LastIndexByte(method, '/')+1]]
	return class, ok
}

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
