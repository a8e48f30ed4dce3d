package grpcpool_test

import (
	"context"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/pool/grpcpool"
)

// testTimeout is how long a test waits for a condition.
const testTimeout = 5 * time.Minute

// server is a gRPC server that holds its calls on request, and records the connection of each.
type server struct {
	pb.UnimplementedTestServiceServer

	addr string
	grpc *grpc.Server
	lis  *listener

	mu     sync.Mutex
	hold   chan struct{}  // closed to end held calls; nil: calls end at once
	inside map[string]int // calls and streams in handlers, by connection
	most   map[string]int // the maximum of inside, by connection
	sizes  []int32        // of the responses of UnaryCall, in order
}

func startServer(t *testing.T, opts ...grpc.ServerOption) *server {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return serveOn(t, lis, opts...)
}

func serveOn(t *testing.T, lis net.Listener, opts ...grpc.ServerOption) *server {
	t.Helper()
	s := &server{addr: lis.Addr().String(), lis: &listener{Listener: lis}, inside: map[string]int{}, most: map[string]int{}}
	register := func(r grpc.ServiceRegistrar) { pb.RegisterTestServiceServer(r, s) }
	s.grpc = grpctest.ServeOn(t, s.lis, register, append(opts, grpc.WaitForHandlers(true))...)
	t.Cleanup(s.letGo)
	return s
}

// holdCalls holds calls until letGo.
func (s *server) holdCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = make(chan struct{})
}

func (s *server) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold != nil {
		close(s.hold)
		s.hold = nil
	}
}

// enter counts a call, and returns the function that ends the count.
func (s *server) enter(ctx context.Context) (leave func(), hold chan struct{}) {
	p, _ := peer.FromContext(ctx)
	from := p.Addr.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside[from]++
	s.most[from] = max(s.most[from], s.inside[from])
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inside[from]--
	}, s.hold
}

func (s *server) stay(ctx context.Context) {
	leave, hold := s.enter(ctx)
	defer leave()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
}

func (s *server) EmptyCall(ctx context.Context, in *pb.Empty) (*pb.Empty, error) {
	s.stay(ctx)
	return in, nil
}

func (s *server) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.mu.Lock()
	s.sizes = append(s.sizes, in.ResponseSize)
	s.mu.Unlock()
	s.stay(ctx)
	return &pb.SimpleResponse{Payload: &pb.Payload{Body: make([]byte, in.ResponseSize)}}, nil
}

// FullDuplexCall echoes.
func (s *server) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	leave, _ := s.enter(stream.Context())
	defer leave()
	for {
		in, err := stream.Recv()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err // of the context: without an error, the end could reach the client first
		}
		if in.ResponseStatus != nil {
			return status.Error(codes.Code(in.ResponseStatus.Code), in.ResponseStatus.Message)
		}
		if err := stream.Send(&pb.StreamingOutputCallResponse{Payload: in.Payload}); err != nil {
			return err
		}
	}
}

func (s *server) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	leave, _ := s.enter(stream.Context())
	defer leave()
	for {
		if _, err := stream.Recv(); err != nil {
			return stream.SendAndClose(&pb.StreamingInputCallResponse{})
		}
	}
}

// now returns how many calls and streams are in handlers, and on how many connections.
func (s *server) now() (calls, conns int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.inside {
		calls += n
		if n > 0 {
			conns++
		}
	}
	return calls, conns
}

// connections returns how many connections have carried a call.
func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.most)
}

// mostOnOne returns the maximum of concurrent calls on one connection.
func (s *server) mostOnOne() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Max(slices.Collect(maps.Values(s.most)))
}

// listener can refuse connections, and close those that it has taken.
type listener struct {
	net.Listener
	mu     sync.Mutex
	conns  []net.Conn
	refuse bool
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		refuse := l.refuse
		l.conns = append(l.conns, c)
		l.mu.Unlock()
		if !refuse {
			return c, nil
		}
		_ = c.Close()
	}
}

func (l *listener) setRefusing(refuse bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = refuse
}

// accepted returns how many connections were made, refused ones included.
func (l *listener) accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// cut closes the i-th connection.
func (l *listener) cut(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.conns[i].Close()
}

// open returns a pool for the server, with insecure credentials if the configuration has
// none.
func open(t *testing.T, s *server, config grpcpool.Config, opts ...grpc.DialOption) (*grpcpool.ClientConn, pb.TestServiceClient) {
	t.Helper()
	if config.TransportCredentials == nil {
		config.TransportCredentials = insecure.NewCredentials()
	}
	conn, err := grpcpool.NewClient("passthrough:///"+s.addr, config, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn, pb.NewTestServiceClient(conn)
}

func insecureOption() grpc.DialOption {
	return grpc.WithTransportCredentials(insecure.NewCredentials())
}

// calls makes calls in the background, and returns their errors once they have ended.
type calls struct {
	all  sync.WaitGroup
	mu   sync.Mutex
	errs []error
}

func (c *calls) start(n int, call func() error) {
	for range n {
		c.all.Go(func() {
			err := call()
			c.mu.Lock()
			defer c.mu.Unlock()
			c.errs = append(c.errs, err)
		})
	}
}

func (c *calls) wait() []error {
	c.all.Wait()
	return c.errs
}

func (c *calls) requireOK(t *testing.T) {
	t.Helper()
	for _, err := range c.wait() {
		require.NoError(t, err)
	}
}

// fill makes n calls that are held until letGo, and returns when so many of them are in handlers.
func (s *server) fill(t *testing.T, client pb.TestServiceClient, n, inside int) *calls {
	t.Helper()
	s.holdCalls()
	c := new(calls)
	c.start(n, emptyCall(t, client))
	eventually(t, "the calls reach the server", func() bool { now, _ := s.now(); return now == inside })
	return c
}

func emptyCall(t *testing.T, client pb.TestServiceClient, opts ...grpc.CallOption) func() error {
	return func() error {
		_, err := client.EmptyCall(t.Context(), &pb.Empty{}, opts...)
		return err
	}
}

// count returns how many connections of a class are so.
func count(s grpcpool.ClassStats, is func(grpcpool.ConnStats) bool) (n int) {
	for _, c := range s.Connections {
		if is(c) {
			n++
		}
	}
	return n
}

func ready(conn *grpcpool.ClientConn) int {
	return count(conn.Stats().Unary, func(c grpcpool.ConnStats) bool { return c.State == connectivity.Ready })
}

func draining(s grpcpool.ClassStats) int {
	return count(s, func(c grpcpool.ConnStats) bool { return c.Draining })
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, testTimeout, time.Millisecond, what)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
