package channel

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/quorate/quorate/endpoint"
	"github.com/quorate/quorate/retry"
)

// Streams carries the client's long-lived streams over connections of their
// own: a watch that replays history does not stand in the way of a Put, by flow
// control or by bytes in the socket, and a burst of large reads does not delay
// the renewal of a lease. It has the options, tokens and endpoints of its
// Channel, ends with it, and connects with the first stream.
//
// All streams share a retry budget, which is not that of the calls. A stream
// that is refused for as long as it is tried must not make calls wait that
// others would serve, and failing calls must not hold up the stream that keeps
// leases alive.
type Streams struct {
	*caller
	conn     *grpc.ClientConn
	main     *grpc.ClientConn // the Channel's own
	resolver *endpointResolver

	following sync.Once
	running   sync.WaitGroup
	closing   sync.Once
}

var _ grpc.ClientConnInterface = (*Streams)(nil)

// Streams returns what carries the channel's long-lived streams, the same each time.
func (c *Channel) Streams() *Streams { return c.streams }

func (c *Channel) newStreams(s *shared, eps []endpoint.Endpoint) (*Streams, error) {
	r := newResolver(eps)
	conn, err := grpc.NewClient(target(eps), c.dialWith(r)...)
	if err != nil {
		return nil, err
	}
	return &Streams{
		caller:   &caller{shared: s.ownBudget(), conn: conn, width: r.width},
		conn:     conn,
		main:     c.conn,
		resolver: r,
	}, nil
}

// NewStream opens a stream like that of the Channel.
func (s *Streams) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s.following.Do(func() { s.running.Go(s.follow) })
	return s.caller.NewStream(ctx, desc, method, opts...)
}

// follow closes the connections when the Channel's are closed, even by those
// who were given them ([Channel.Conn]) and know of no others.
func (s *Streams) follow() {
	for state := s.main.GetState(); state != connectivity.Shutdown; state = s.main.GetState() {
		s.main.WaitForStateChange(context.Background(), state)
	}
	s.closeConn()
}

// closeConn closes the connections, once: of two calls at the same time grpc
// lets the second cut short what the first has begun.
func (s *Streams) closeConn() {
	s.closing.Do(func() { _ = s.conn.Close() }) // it has nothing to report
}

// close is called when the Channel's own connections are closed.
func (s *Streams) close() {
	s.following.Do(func() {})
	s.closeConn()
	s.running.Wait()
}

// ownBudget returns a copy whose callers share a budget of their own.
func (s *shared) ownBudget() *shared {
	own := *s
	own.budget = retry.NewBudget(s.config.Throttling)
	return &own
}
