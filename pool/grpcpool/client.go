package grpcpool

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	grpcbalancer "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
)

// ErrClosed is the error of calls that start after Close, or wait for a connection during
// Close. Its code is Canceled, as for calls on a closed gRPC connection.
var ErrClosed = status.Error(codes.Canceled, "grpcpool: the pool is closed")

// ClientConn is a pool of gRPC channels to one target. Generated clients accept it like a
// *grpc.ClientConn. Its methods may be called concurrently.
type ClientConn struct {
	target     string
	classifier classifier
	groups     [classes]*group
	closed     atomic.Bool
}

var _ grpc.ClientConnInterface = (*ClientConn)(nil)

// NewClient returns a pool for a target. Like grpc.NewClient, it does not connect yet. All
// channels have the dial options: interceptors see each call once, and each channel has its own
// resolver and load balancing policy. A call holds its stream on a connection while its
// interceptors run. An interceptor that makes calls should make them on another ClientConn or in
// another class ([UseClass]); otherwise they may wait for the stream of their own caller.
//
// An error names the invalid field of the configuration, or is the error of
// grpc.NewClient.
func NewClient(target string, config Config, opts ...grpc.DialOption) (*ClientConn, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	p := &ClientConn{
		target:     target,
		classifier: classifier{methods: maps.Clone(config.Methods), bulkBytes: config.BulkBytes},
	}
	opts = opts[:len(opts):len(opts)]
	dial := func(limits *streamLimits) (*grpc.ClientConn, error) {
		if config.TransportCredentials == nil {
			return grpc.NewClient(target, opts...)
		}
		observed := grpc.WithTransportCredentials(observing{balancer.Credentials(config.TransportCredentials), limits})
		return grpc.NewClient(target, append(opts, observed)...)
	}
	for class := range p.groups {
		p.groups[class] = newGroup(Class(class), config, dial)
	}
	if err := p.groups[Unary].openFirst(); err != nil {
		return nil, err
	}
	return p, nil
}

// Invoke makes a unary call on a connection of its class. It waits while all connections
// of the class are at the servers' stream limits and no other can be opened. If ctx ends
// meanwhile, the code is DeadlineExceeded or Canceled. After Close it returns [ErrClosed].
func (p *ClientConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	g, at, err := p.acquire(ctx, p.classifier.classOf(method, args, Unary, opts), opts)
	if err != nil {
		return err
	}
	defer g.release(at)
	return at.conn.cc.Invoke(ctx, method, args, reply, opts...)
}

// NewStream opens a stream on a connection of its class, and waits for one as Invoke does.
// The stream counts on its connection until it ends in one of the ways that
// grpc.ClientConn.NewStream lists: its owner reads it to an error or to its only reply, or
// ends ctx. Otherwise it leaks, as with gRPC itself.
func (p *ClientConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	g, at, err := p.acquire(ctx, p.classifier.classOf(method, nil, Streams, opts), opts)
	if err != nil {
		return nil, err
	}
	opened := false
	defer func() {
		if !opened {
			g.release(at)
		}
	}()
	cs, err := at.conn.cc.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, err
	}
	opened = true
	return newStream(ctx, cs, !desc.ServerStreams, func() { g.release(at) }), nil
}

// acquire counts a call on a connection of its class. If that fails, it calls the call's OnFinish
// options, as gRPC would.
func (p *ClientConn) acquire(ctx context.Context, class Class, opts []grpc.CallOption) (g *group, at place, err error) {
	if class.valid() {
		g = p.groups[class]
		at, err = g.acquire(ctx)
	} else {
		err = status.Errorf(codes.InvalidArgument, "grpcpool: there is no %v; use Unary, Bulk or Streams", class)
	}
	if err != nil {
		for _, o := range opts {
			if o, ok := o.(grpc.OnFinishCallOption); ok {
				o.OnFinish(err)
			}
		}
	}
	return g, at, err
}

// Ready connects the minimum connections of the given classes, by default Unary, and
// returns when each has been ready. Use it for fast first calls, or to fail at startup if
// the server is missing. It returns an error that wraps ctx.Err() if ctx ends first, and
// [ErrClosed] after Close.
func (p *ClientConn) Ready(ctx context.Context, class ...Class) error {
	if len(class) == 0 {
		class = []Class{Unary}
	}
	for _, c := range class {
		if !c.valid() {
			return fmt.Errorf("grpcpool: there is no %v; use Unary, Bulk or Streams", c)
		}
	}
	var kept []*conn
	for _, c := range class {
		conns, err := p.groups[c].openKept()
		if err != nil {
			return err
		}
		kept = append(kept, conns...)
	}
	for _, c := range kept {
		if err := p.awaitReady(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (p *ClientConn) awaitReady(ctx context.Context, c *conn) error {
	for {
		state := c.cc.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			c.cc.Connect()
		case connectivity.Shutdown:
			if p.closed.Load() {
				return ErrClosed
			}
			return nil // it was closed as surplus, so there are others
		default:
		}
		if !c.cc.WaitForStateChange(ctx, state) {
			return fmt.Errorf("grpcpool: a connection to %q is not ready, its state is %s: %w", p.target, state, ctx.Err())
		}
	}
}

// Close ends all calls and streams and returns when the pool's goroutines have ended. Calls
// that wait for a connection get [ErrClosed]. In-flight calls get gRPC's error: Canceled,
// or Unavailable if the transport closes first. A second Close returns ErrClosed.
func (p *ClientConn) Close() error {
	if p.closed.Swap(true) {
		return ErrClosed
	}
	var all sync.WaitGroup
	for _, g := range p.groups {
		all.Go(g.close)
	}
	all.Wait()
	return nil
}

// Target returns the target that [NewClient] was called with.
func (p *ClientConn) Target() string { return p.target }

// GetState returns the state of the pool, as gRPC derives that of a channel from those of its
// connections: Ready if a connection of any class is, so that a call can be sent; else Connecting
// if one is being made; else Idle if one is not connected because no call needed it; else
// TransientFailure. Connections that drain do not count. After Close it is Shutdown. It does
// not connect, see [ClientConn.Connect]; [ClientConn.Stats] has the state of each connection, and
// [ClientConn.Ready] waits.
func (p *ClientConn) GetState() connectivity.State {
	if p.closed.Load() {
		return connectivity.Shutdown
	}
	var seen grpcbalancer.ConnectivityStateEvaluator
	for _, g := range p.groups {
		for _, c := range g.stats().Connections {
			if !c.Draining {
				seen.RecordTransition(connectivity.Shutdown, c.State)
			}
		}
	}
	return seen.CurrentState()
}

// Connect starts connecting the idle minimum connections of Unary and of each used class, and
// does not wait. Without it they connect with the first call. It does nothing after Close.
func (p *ClientConn) Connect() {
	for class, g := range p.groups {
		if Class(class) != Unary && !g.used() {
			continue
		}
		conns, err := g.openKept()
		if err != nil {
			continue // closed, or its first call gets the error
		}
		for _, c := range conns {
			c.cc.Connect()
		}
	}
}
