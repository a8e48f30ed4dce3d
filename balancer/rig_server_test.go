package balancer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quorate/quorate/internal/pause"
)

// usual is the usual duration of a call.
const usual = 2 * time.Millisecond

// window is the flow-control window of both ends. It is constant, so that gRPC sends no PING with each message to
// estimate a better one: that is a third of what a call costs under the race detector.
const window = 1 << 16

// gate blocks callers while it is shut.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed when the gate opens, nil while it is open
}

func (g *gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

func (g *gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// wait reports whether the gate was open before done was closed.
func (g *gate) wait(done <-chan struct{}) bool {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut == nil {
		return true
	}
	select {
	case <-shut:
		return true
	case <-done:
		return false
	}
}

// server is a gRPC server on connections in memory.
type server struct {
	pb.UnimplementedTestServiceServer
	healthpb.UnimplementedHealthServer
	addr string

	frozen       gate // like a stopped process: nothing is read or written
	stalled      gate // alive, and completes nothing
	quiet        gate // streams send nothing
	blackhole    gate // attempts to connect hang
	unresponsive gate // the health service answers nothing

	delay   atomic.Int64          // the delay of calls and of probes for service
	long    atomic.Int64          // additional delay of calls
	fail    atomic.Pointer[error] // the error of calls and probes for service
	passes  atomic.Int64          // that many of a hundred calls do not fail, evenly spread
	worked  atomic.Int64          // calls and probes while some fail
	refuse  atomic.Pointer[error] // the error of the health service
	status  atomic.Int32          // a ServingStatus, 0 for SERVING
	rate    atomic.Int64          // bytes a second on each connection, 0: unlimited
	payload atomic.Int64          // the size of each message of a stream
	every   atomic.Int64          // the pause between two messages of a stream

	unwatched atomic.Bool // the health of the server cannot be watched
	// hangsUp is set while connections are closed before the server's preface, as after a failed handshake.
	hangsUp atomic.Bool

	calls, conns, dials atomic.Int64
	streams             uint32 // that it allows on a connection from its next start on

	mu   sync.Mutex
	grpc *grpc.Server
	lis  *bufconn.Listener // nil while killed
	open []*serverConn
}

// startServers starts servers.
func startServers(t *testing.T, n int) (servers []*server) {
	t.Helper()
	for i := range n {
		s := &server{addr: string(rune('a' + i)), streams: math.MaxUint32}
		s.delay.Store(int64(usual))
		s.every.Store(int64(20 * time.Millisecond))
		s.restart()
		t.Cleanup(func() {
			s.frozen.Open()
			s.blackhole.Open()
			s.unresponsive.Open()
			for _, c := range s.connections() {
				c.frozen.Open()
			}
			s.kill()
		})
		servers = append(servers, s)
	}
	return servers
}

func (s *server) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lis = bufconn.Listen(window)
	s.grpc = grpc.NewServer(grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window), grpc.MaxConcurrentStreams(s.streams))
	pb.RegisterTestServiceServer(s.grpc, s)
	healthpb.RegisterHealthServer(s.grpc, s)
	srv, lis := s.grpc, s.lis
	go func() { _ = srv.Serve(serverListener{lis, s}) }()
}

// kill closes all connections, and refuses new ones.
func (s *server) kill() {
	s.mu.Lock()
	s.lis = nil
	s.mu.Unlock()
	s.grpc.Stop()
}

// disconnect closes all connections, and accepts new ones.
func (s *server) disconnect() {
	for _, c := range s.connections() {
		_ = c.Close()
	}
}

// stopGracefully refuses new connections and calls, and returns when the others have ended.
func (s *server) stopGracefully() {
	s.mu.Lock()
	s.lis = nil
	s.mu.Unlock()
	s.grpc.GracefulStop()
}

// connections returns the open connections, the oldest first.
func (s *server) connections() []*serverConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.open)
}

// callsIn returns how many calls the server gets in a time.
func (s *server) callsIn(length time.Duration) int64 {
	before := s.calls.Load()
	time.Sleep(length)
	return s.calls.Load() - before
}

// work is the work of a call or a probe for service.
func (s *server) work(ctx context.Context, long time.Duration) error {
	if err := pause.For(ctx, time.Duration(s.delay.Load())+long); err != nil {
		return err
	}
	if !s.stalled.wait(ctx.Done()) {
		return ctx.Err()
	}
	if err := s.fail.Load(); err != nil && s.worked.Add(1)*61%100 >= s.passes.Load() {
		return *err
	}
	return nil
}

// EmptyCall is a usual call.
func (s *server) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	s.calls.Add(1)
	return &pb.Empty{}, s.work(ctx, time.Duration(s.long.Load()))
}

// CacheableUnaryCall takes as long as its payload says, and returns the status that it requests.
func (s *server) CacheableUnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	takes, err := time.ParseDuration(string(r.GetPayload().GetBody()))
	if err != nil {
		return nil, err
	}
	if err := s.work(ctx, takes); err != nil {
		return nil, err
	}
	return &pb.SimpleResponse{}, status.Error(codes.Code(r.GetResponseStatus().GetCode()), r.GetResponseStatus().GetMessage()) //nolint:gosec // it is a code
}

// UnaryCall is the probe for service. It returns as many bytes as requested.
func (s *server) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: &pb.Payload{Body: make([]byte, r.GetResponseSize())}}, s.work(ctx, 0)
}

// Check is the probe for life.
func (s *server) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if !s.unresponsive.wait(ctx.Done()) {
		return nil, ctx.Err()
	}
	if err := s.refuse.Load(); err != nil {
		return nil, *err
	}
	st := healthpb.HealthCheckResponse_ServingStatus(s.status.Load())
	if st == 0 {
		st = healthpb.HealthCheckResponse_SERVING
	}
	return &healthpb.HealthCheckResponse{Status: st}, nil
}

// Watch follows the status.
func (s *server) Watch(r *healthpb.HealthCheckRequest, stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	if s.unwatched.Load() {
		return s.UnimplementedHealthServer.Watch(r, stream)
	}
	for latest := int32(-1); ; {
		if now := s.status.Load(); now != latest {
			latest = now
			status, _ := s.Check(stream.Context(), r)
			if err := stream.Send(status); err != nil {
				return err
			}
		}
		if err := pause.For(stream.Context(), 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// StreamingOutputCall sends messages, while the server is not stalled.
func (s *server) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	ctx := stream.Context()
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	for {
		if err := pause.For(ctx, time.Duration(s.every.Load())); err != nil {
			return err
		}
		if !s.stalled.wait(ctx.Done()) || !s.quiet.wait(ctx.Done()) {
			return ctx.Err()
		}
		if err := stream.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, s.payload.Load())}}); err != nil {
			return err
		}
	}
}

// dialer connects to servers by their address. Dialing an unknown address fails.
func dialer(servers []*server) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		i := slices.IndexFunc(servers, func(s *server) bool { return s.addr == addr })
		if i < 0 {
			return nil, errors.New("no such host")
		}
		s := servers[i]
		s.dials.Add(1)
		if !s.blackhole.wait(ctx.Done()) {
			return nil, ctx.Err()
		}
		s.mu.Lock()
		lis := s.lis
		s.mu.Unlock()
		switch {
		case lis == nil:
			return nil, fmt.Errorf("%w: %w", syscall.ECONNREFUSED, errNoLeader) // a dialer's error may have a gRPC status
		case s.hangsUp.Load():
			client, server := net.Pipe()
			return client, server.Close()
		default:
			return lis.DialContext(ctx)
		}
	}
}

type serverListener struct {
	net.Listener
	s *server
}

func (l serverListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &serverConn{Conn: conn, s: l.s, closed: make(chan struct{})}
	l.s.conns.Add(1)
	l.s.mu.Lock()
	l.s.open = append(l.s.open, c)
	l.s.mu.Unlock()
	return c, nil
}

// serverConn is a server's end of a connection, which can be frozen separately.
type serverConn struct {
	net.Conn
	s      *server
	frozen gate
	once   sync.Once
	closed chan struct{}
}

func (c *serverConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		c.s.open = slices.DeleteFunc(c.s.open, func(o *serverConn) bool { return o == c })
	})
	return c.Conn.Close()
}

func (c *serverConn) pass() bool { return c.s.frozen.wait(c.closed) && c.frozen.wait(c.closed) }

func (c *serverConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.pass() {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *serverConn) Write(b []byte) (int, error) {
	written := 0
	for len(b) > 0 {
		if !c.pass() {
			return written, net.ErrClosed
		}
		chunk := len(b)
		if rate := c.s.rate.Load(); rate > 0 {
			chunk = min(chunk, 1<<10)
			time.Sleep(time.Duration(chunk) * time.Second / time.Duration(rate))
		}
		n, err := c.Conn.Write(b[:chunk])
		written += n
		if err != nil {
			return written, err
		}
		b = b[n:]
	}
	return written, nil
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
