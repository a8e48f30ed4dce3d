package balancer_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/grpcprobe"
)

// server is a gRPC server that can be frozen, like a process that is stopped.
type server struct {
	pb.UnimplementedTestServiceServer
	healthpb.UnimplementedHealthServer

	lis    net.Listener
	grpc   *grpc.Server
	calls  atomic.Int64
	probes atomic.Int64
	conns  atomic.Int64 // ever made
	open   atomic.Int64
	status atomic.Int32 // healthpb.HealthCheckResponse_ServingStatus, 0 for SERVING
	long   atomic.Int64 // how long EmptyCall takes
	delay  atomic.Int64 // of all calls and of probes
	stall  atomic.Bool  // calls, and probes whether the server works, are not answered

	mu     sync.Mutex
	frozen chan struct{} // closed to thaw; nil while not frozen
	only   int64         // the connection that is frozen, 0 for all
	refuse atomic.Pointer[error]
}

func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	var err error
	s.lis, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.serve(s.lis)
	t.Cleanup(func() { s.thaw(); s.grpc.Stop() })
	return s
}

func (s *server) serve(lis net.Listener) {
	s.grpc = grpc.NewServer(grpc.WaitForHandlers(true))
	pb.RegisterTestServiceServer(s.grpc, s)
	healthpb.RegisterHealthServer(s.grpc, s)
	srv := s.grpc // it may be replaced before the goroutine runs
	go func() { _ = srv.Serve(freezing{lis, s}) }()
}

func (s *server) addr() string { return s.lis.Addr().String() }

func (s *server) freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = make(chan struct{})
}

// freezeOnly freezes the connection with that number, from 1.
func (s *server) freezeOnly(n int64) {
	s.freeze()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.only = n
}

func (s *server) thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen != nil {
		close(s.frozen)
		s.frozen, s.only = nil, 0
	}
}

func (s *server) pass(conn int64) {
	s.mu.Lock()
	frozen, concerned := s.frozen, s.only == 0 || s.only == conn
	s.mu.Unlock()
	if frozen != nil && concerned {
		<-frozen
	}
}

func (s *server) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	s.calls.Add(1)
	time.Sleep(time.Duration(s.long.Load()))
	return &pb.Empty{}, s.work(ctx)
}

// UnaryCall is what probes call.
func (s *server) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{}, s.work(ctx)
}

func (s *server) work(ctx context.Context) error {
	if s.stall.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(time.Duration(s.delay.Load()))
	if err := s.refuse.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *server) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	for {
		if err := stream.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *server) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	s.probes.Add(1)
	st := healthpb.HealthCheckResponse_ServingStatus(s.status.Load())
	if st == 0 {
		st = healthpb.HealthCheckResponse_SERVING
	}
	return &healthpb.HealthCheckResponse{Status: st}, nil
}

type freezing struct {
	net.Listener
	s *server
}

func (l freezing) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.s.open.Add(1)
	return &freezingConn{Conn: conn, s: l.s, number: l.s.conns.Add(1)}, nil
}

type freezingConn struct {
	net.Conn
	s      *server
	number int64
	closed sync.Once
}

func (c *freezingConn) Close() error {
	c.closed.Do(func() { c.s.open.Add(-1) })
	return c.Conn.Close()
}

func (c *freezingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.s.pass(c.number)
	return n, err
}

func (c *freezingConn) Write(b []byte) (int, error) {
	c.s.pass(c.number)
	return c.Conn.Write(b)
}

// working is a prober that asks whether the server lives, and whether it does its work.
type working struct{}

func (working) Probe(ctx context.Context, cc grpc.ClientConnInterface, tell func(health.Report)) {
	if _, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		return
	}
	tell(health.Report{Kind: health.Answered})
	if _, err := pb.NewTestServiceClient(cc).UnaryCall(ctx, &pb.SimpleRequest{}); err == nil {
		tell(health.Report{Kind: health.Served})
	}
}

// conn is a ClientConn under test.
type conn struct {
	*grpc.ClientConn
	resolver *manual.Resolver
	table    *health.Table
	events   *events
	prober   health.Prober
}

type events struct {
	mu      sync.Mutex
	changes []health.Change
	resets  int
}

func (e *events) Picked(*balancer.Endpoint, balancer.Call) {}

func (e *events) Changed(_ *balancer.Endpoint, c health.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes = append(e.changes, c)
}

func (e *events) Reset(*balancer.Endpoint, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resets++
}

func (e *events) resetCount() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.resets
}

func (e *events) reached(s health.State) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, c := range e.changes {
		if c.To == s {
			n++
		}
	}
	return n
}

var (
	errNoLeader = status.Error(codes.FailedPrecondition, "no leader")
	errInVain   = status.Error(codes.Aborted, "waited in vain")
)

func judge(err error) (health.Kind, bool) {
	switch status.Code(err) {
	case codes.FailedPrecondition:
		return health.Leaderless, true
	case codes.Aborted:
		return health.Stalled, true
	default:
		return 0, false
	}
}

func stateOf(o *balancer.Options, addrs ...string) resolver.State {
	var st resolver.State
	for _, a := range addrs {
		st.Endpoints = append(st.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: a}}})
	}
	return balancer.WithOptions(st, o)
}

// connect connects to the servers by a policy.
func connect(t *testing.T, config string, servers ...*server) *conn {
	t.Helper()
	return connectProbing(t, config, working{}, servers...)
}

func connectProbing(t *testing.T, config string, prober health.Prober, servers ...*server) *conn {
	t.Helper()
	return connectWithin(t, time.Second, config, prober, servers...)
}

// connectWithin gives each attempt to connect that time.
func connectWithin(t *testing.T, timeout time.Duration, config string, prober health.Prober, servers ...*server) *conn {
	t.Helper()
	c := &conn{resolver: manual.NewBuilderWithScheme("test"), table: health.NewTable(), events: &events{}, prober: prober}
	c.resolver.InitialState(c.state(servers...))
	var err error
	c.ClientConn, err = grpc.NewClient("test:///", grpc.WithResolvers(c.resolver),
		grpc.WithTransportCredentials(balancer.Credentials(insecure.NewCredentials())),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[`+config+`]}`), grpc.WithDisableRetry(),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: timeout}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func (c *conn) state(servers ...*server) resolver.State {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.addr()
	}
	o := &balancer.Options{Table: c.table, Prober: c.prober, Events: c.events, Judge: judge}
	if c.prober != nil {
		o.Liveness = grpcprobe.Prober{}
	}
	return stateOf(o, addrs...)
}

func (c *conn) call(ctx context.Context) error {
	_, err := pb.NewTestServiceClient(c.ClientConn).EmptyCall(ctx, &pb.Empty{}, grpc.WaitForReady(true))
	return err
}

// meetAll makes calls until all servers had one.
func (c *conn) meetAll(t *testing.T, servers ...*server) {
	t.Helper()
	require.Eventually(t, func() bool {
		if c.call(t.Context()) != nil {
			return false
		}
		for _, s := range servers {
			if s.calls.Load() == 0 {
				return false
			}
		}
		return true
	}, 10*time.Second, time.Millisecond)
}
