package keepalive_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	grpckeepalive "google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/keepalive"
)

// Types of HTTP/2 frames that tests look at.
const (
	framePing   = 6
	frameGoAway = 7
)

// frame is a ping (no answers) or a GOAWAY that crossed the wire.
type frame struct {
	at    time.Time
	kind  byte
	debug string
}

// frameLog collects the frames of one direction, over all connections.
type frameLog struct {
	mu     sync.Mutex
	frames []frame
}

func (t *frameLog) add(f frame) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frames = append(t.frames, f)
}

func (t *frameLog) all(kind byte, debug string) []time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	var times []time.Time
	for _, f := range t.frames {
		if f.kind == kind && f.debug == debug {
			times = append(times, f.at)
		}
	}
	return times
}

// reader splits a stream of bytes into frames.
type reader struct {
	frameLog *frameLog
	buf      bytes.Buffer
	skip     int
}

func (r *reader) feed(b []byte) {
	n := min(r.skip, len(b))
	r.skip -= n
	r.buf.Write(b[n:])
	for {
		head := r.buf.Bytes()
		if len(head) < 9 {
			return
		}
		length := int(binary.BigEndian.Uint32(append([]byte{0}, head[:3]...)))
		if len(head) < 9+length {
			return
		}
		f := r.buf.Next(9 + length)
		switch kind, ack, payload := f[3], f[4]&1 != 0, f[9:]; {
		case kind == framePing && !ack:
			r.frameLog.add(frame{at: time.Now(), kind: kind, debug: pingKind(payload)})
		case kind == frameGoAway:
			r.frameLog.add(frame{at: time.Now(), kind: kind, debug: string(payload[8:])})
		}
	}
}

// pingKind tells grpc's keepalive pings, which carry zeros, from its others.
func pingKind(payload []byte) string {
	if bytes.Equal(payload, make([]byte, 8)) {
		return "keepalive"
	}
	return "other"
}

// tappedConn is the client's end of a connection.
type tappedConn struct {
	net.Conn
	received, sent *reader
}

func (c *tappedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.feed(b[:n])
	return n, err
}

func (c *tappedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.feed(b[:n])
	return n, err
}

// buffered is how many bytes a connection holds in each direction.
const buffered = 1 << 16

// pipeNet is a network of pipes with one server on it. It works in synctest bubbles.
type pipeNet struct {
	*bufconn.Listener
	latency  time.Duration
	silent   atomic.Bool // what is on its way is lost, with latency only
	carriers sync.WaitGroup
	fromSrv  frameLog
	toServer frameLog
	dials    atomic.Int64
}

func newPipeNet(latency time.Duration) *pipeNet {
	return &pipeNet{Listener: bufconn.Listen(buffered), latency: latency}
}

func (p *pipeNet) dial(ctx context.Context, _ string) (net.Conn, error) {
	client, err := p.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	if p.latency > 0 {
		client = p.delayed(client)
	}
	p.dials.Add(1)
	const preface = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	return &tappedConn{Conn: client, received: &reader{frameLog: &p.fromSrv}, sent: &reader{frameLog: &p.toServer, skip: preface}}, nil
}

// delayed returns a connection whose bytes reach conn later, and the other way round.
func (p *pipeNet) delayed(conn net.Conn) net.Conn {
	near, far := net.Pipe()
	p.carriers.Go(func() { p.carry(far, conn) })
	p.carriers.Go(func() { p.carry(conn, far) })
	return near
}

func (p *pipeNet) carry(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		time.Sleep(p.latency)
		if p.silent.Load() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *pipeNet) tooManyPings() []time.Time { return p.fromSrv.all(frameGoAway, "too_many_pings") }

// service answers EmptyCall and UnaryCall at once, or as a test says, and leaves FullDuplexCall open without a
// message until the client ends it.
type service struct {
	testgrpc.UnimplementedTestServiceServer
	empty func(context.Context) error
	unary func(*testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error)
}

func (s service) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	if s.empty == nil {
		return &testgrpc.Empty{}, nil
	}
	return &testgrpc.Empty{}, s.empty(ctx)
}

func (s service) UnaryCall(_ context.Context, r *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	if s.unary == nil {
		return &testgrpc.SimpleResponse{}, nil
	}
	return s.unary(r)
}

func (service) FullDuplexCall(s testgrpc.TestService_FullDuplexCallServer) error {
	for {
		if _, err := s.Recv(); err != nil {
			return nil //nolint:nilerr // the client has ended the stream, as it should
		}
	}
}

// rawOptions gives grpc the values as they are, for pairs that are refused.
func rawOptions(p keepalive.Pair) ([]grpc.DialOption, []grpc.ServerOption) {
	s := p.Server
	var dial []grpc.DialOption
	if p.Client.Time > 0 {
		dial = append(dial, grpc.WithKeepaliveParams(grpckeepalive.ClientParameters(p.Client)))
	}
	return dial, []grpc.ServerOption{
		grpc.KeepaliveParams(grpckeepalive.ServerParameters{
			MaxConnectionIdle: s.MaxConnectionIdle, MaxConnectionAge: s.MaxConnectionAge,
			MaxConnectionAgeGrace: s.MaxConnectionAgeGrace, Time: s.Time, Timeout: s.Timeout,
		}),
		grpc.KeepaliveEnforcementPolicy(grpckeepalive.EnforcementPolicy{MinTime: s.MinTime, PermitWithoutStream: s.PermitWithoutStream}),
	}
}

// settings are a Pair or Sizes.
type settings interface {
	Validate() error
	DialOptions() ([]grpc.DialOption, error)
	ServerOptions() ([]grpc.ServerOption, error)
}

// checkErrors checks that settings are refused, wherever they are given, by an error with all parts; without parts they are valid.
func checkErrors(t *testing.T, of settings, parts ...string) {
	t.Helper()
	err := of.Validate()
	_, dialErr := of.DialOptions()
	_, serverErr := of.ServerOptions()
	assert.Equal(t, err, dialErr)
	assert.Equal(t, err, serverErr)
	assert.Equal(t, len(parts) > 0, err != nil, "%v", err)
	for _, part := range parts {
		assert.ErrorContains(t, err, part)
	}
}

func options(t *testing.T, of settings) ([]grpc.DialOption, []grpc.ServerOption) {
	t.Helper()
	dial, err := of.DialOptions()
	require.NoError(t, err)
	server, err := of.ServerOptions()
	require.NoError(t, err)
	return dial, server
}

// startServer runs a server on p until the end of the test.
func (p *pipeNet) startServer(t *testing.T, service testgrpc.TestServiceServer, options ...grpc.ServerOption) {
	t.Helper()
	t.Cleanup(p.carriers.Wait)
	grpctest.ServeOn(t, p, func(s grpc.ServiceRegistrar) { testgrpc.RegisterTestServiceServer(s, service) }, options...)
}

// serve runs a server on p, and returns a channel to it. Both end with the test.
func (p *pipeNet) serve(t *testing.T, service testgrpc.TestServiceServer, dial []grpc.DialOption, server []grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	p.startServer(t, service, server...)
	conn := p.connectTo(t, dial...)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// connected returns a network with a server, and a channel that is connected to it.
func connected(t *testing.T, latency time.Duration, dial []grpc.DialOption, server []grpc.ServerOption) (*pipeNet, *grpc.ClientConn) {
	t.Helper()
	p := newPipeNet(latency)
	conn := p.serve(t, service{}, dial, server)
	connect(t, conn)
	return p, conn
}

// connectTo returns a channel to the server on p.
func (p *pipeNet) connectTo(t *testing.T, dial ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///pipe", append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(p.dial),
		grpc.WithIdleTimeout(0),
	}, dial...)...)
	require.NoError(t, err)
	return conn
}

// connect waits until conn is connected.
func connect(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	ctx := grpctest.Within(t, 30*time.Second)
	conn.Connect()
	for s := conn.GetState(); s != connectivity.Ready; s = conn.GetState() {
		require.True(t, conn.WaitForStateChange(ctx, s), "still %v", s)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
