package channel

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/attributes"
	gbalancer "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/observe"
)

// member is a gRPC server that answers Range, Status and Watch, verifies tokens if configured, and
// counts connections.
type member struct {
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedAuthServer
	pb.UnimplementedWatchServer

	endpoint string
	accepts  func(token string) bool // nil: auth is off
	header   func(metadata.MD)       // receives the header of each request; nil: none
	accepted atomic.Int32            // TCP connections

	mu            sync.Mutex
	calls         int
	authenticates int
	authorities   []string
	remotes       map[string]bool
	secure        bool
}

func startMember(t *testing.T, scheme string, tlsConfig *tls.Config) *member {
	t.Helper()
	lis := must(net.Listen("tcp", "127.0.0.1:0"))
	return startMemberAt(t, lis, scheme, tlsConfig)
}

func startMemberAt(t *testing.T, lis net.Listener, scheme string, tlsConfig *tls.Config) *member {
	t.Helper()
	m := &member{endpoint: scheme + lis.Addr().String(), remotes: map[string]bool{}}
	var opts []grpc.ServerOption
	if tlsConfig != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(tlsConfig)))
	}
	grpctest.ServeOn(t, grpctest.CountingListener{Listener: lis, Accepted: &m.accepted}, func(s grpc.ServiceRegistrar) {
		pb.RegisterKVServer(s, m)
		pb.RegisterMaintenanceServer(s, m)
		pb.RegisterAuthServer(s, m)
		pb.RegisterWatchServer(s, m)
	}, opts...)
	return m
}

func (m *member) note(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	md, _ := metadata.FromIncomingContext(ctx)
	if m.header != nil {
		m.header(md)
	}
	m.authorities = append(m.authorities, md.Get(":authority")...)
	p, _ := peer.FromContext(ctx)
	m.remotes[p.Addr.String()] = true
	_, m.secure = p.AuthInfo.(credentials.TLSInfo)
	if m.accepts == nil {
		return nil
	}
	tokens := md.Get(rpctypes.TokenFieldNameGRPC)
	if len(tokens) == 0 {
		return rpctypes.ErrGRPCUserEmpty
	}
	if !m.accepts(tokens[0]) {
		return rpctypes.ErrGRPCInvalidAuthToken
	}
	return nil
}

func (m *member) Range(ctx context.Context, _ *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{Count: 1}, m.note(ctx)
}

func (m *member) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Version: "3.7.3"}, m.note(ctx)
}

func (m *member) Authenticate(_ context.Context, r *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.authenticates++
	if r.Password != "secret" {
		return nil, rpctypes.ErrGRPCAuthFailed
	}
	return &pb.AuthenticateResponse{Token: fmt.Sprint(r.Name, "-", m.authenticates)}, nil
}

// Watch sends the same response for each request until the stream ends.
func (m *member) Watch(ws pb.Watch_WatchServer) error {
	if err := m.note(ws.Context()); err != nil {
		return err
	}
	for {
		if _, err := ws.Recv(); err != nil {
			return err
		}
		if err := ws.Send(&pb.WatchResponse{Created: true}); err != nil {
			return err
		}
	}
}

func (m *member) connections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.remotes)
}

// locked reads a field of a member, which a late attempt may be writing.
func locked[T any](m *member, field *T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *field
}

func newTestChannel(t *testing.T, cfg Config) *Channel {
	t.Helper()
	if cfg.Login == nil {
		cfg.Login = func() Login { return Login{} }
	}
	cfg.Logger = zap.NewNop
	c := must(New(cfg))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// must returns the value of a call that does not fail in any case of the test, and panics with its error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func put(ctx context.Context, conn grpc.ClientConnInterface) error {
	_, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: []byte("k")})
	return err
}

func get(t *testing.T, c grpc.ClientConnInterface) error {
	t.Helper()
	_, err := pb.NewKVClient(c).Range(grpctest.Within(t, 10*time.Second), &pb.RangeRequest{Key: []byte("k")}, grpc.WaitForReady(true))
	return err
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// heldConn holds each attempt until the test ends it, or its context ends. Its endpoints take
// turns. It is for use in a bubble.
type heldConn struct {
	grpc.ClientConnInterface
	endpoints []*balancer.Endpoint

	mu   sync.Mutex
	held []*held
}

// held is an attempt that waits for its result.
type held struct {
	*attempt
	method     string
	req, reply any
	answer     chan error
}

// withHeldConn runs a test in virtual time with a connection to two endpoints.
func withHeldConn(t *testing.T, test func(t *testing.T, conn *heldConn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newHeldConn("a", "b")) })
}

func subtestWithHeldConn(t *testing.T, name string, test func(t *testing.T, conn *heldConn)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { withHeldConn(t, test) })
}

func newHeldConn(endpoints ...string) *heldConn {
	c := new(heldConn)
	table := health.NewTable()
	for _, ep := range endpoints {
		c.endpoints = append(c.endpoints, balancer.Detached(ep, table.Acquire("", ep), nil))
	}
	return c
}

func (c *heldConn) Invoke(ctx context.Context, method string, req, reply any, _ ...grpc.CallOption) error {
	h := &held{attempt: attemptFrom(ctx), method: method, req: req, reply: reply, answer: make(chan error, 1)}
	c.mu.Lock()
	if len(c.endpoints) > 0 {
		if err := h.Picked(c.endpoints[len(c.held)%len(c.endpoints)]); err != nil {
			h.Ended(false)
			c.mu.Unlock()
			return err
		}
	}
	c.held = append(c.held, h)
	c.mu.Unlock()
	select {
	case err := <-h.answer:
		return err
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// attempts returns the attempts so far, once all goroutines are blocked.
func (c *heldConn) attempts() []*held {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*held(nil), c.held...)
}

// latest returns the n-th attempt, which must be the latest.
func (c *heldConn) latest(t *testing.T, n int) *held {
	t.Helper()
	all := c.attempts()
	require.Len(t, all, n)
	return all[n-1]
}

// count answers a Range with a response whose Count is n.
func (h *held) count(n int64) {
	h.reply.(*pb.RangeResponse).Count = n
	h.answer <- nil
}

// underWay is a call in the background.
type underWay struct {
	err   error
	reply any
	done  chan struct{}
}

func (u *underWay) ended() bool {
	synctest.Wait()
	return pause.Closed(u.done)
}

// goCall starts a call.
func goCall(ctx context.Context, c *Caller, method string, req, reply any, opts ...grpc.CallOption) *underWay {
	u := &underWay{reply: reply, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		u.err = c.Invoke(ctx, method, req, reply, opts...)
	}()
	return u
}

func goRange(ctx context.Context, c *Caller) *underWay {
	return goCall(ctx, c, pb.KV_Range_FullMethodName, &pb.RangeRequest{Key: []byte("k")}, &pb.RangeResponse{})
}

func goPut(ctx context.Context, c *Caller) *underWay {
	return goCall(ctx, c, pb.KV_Put_FullMethodName, &pb.PutRequest{Key: []byte("k")}, &pb.PutResponse{})
}

// count returns the Count of the response to a Range.
func (u *underWay) count() int64 { return u.reply.(*pb.RangeResponse).Count }

// recorder records the events of an observer.
type recorder struct {
	observe.None
	mu        sync.Mutex
	retries   []observe.Retry
	failovers []observe.Failover
	sent, won []observe.Hedge
	unknown   []observe.UnknownOutcome
	picks     []observe.Pick
	ejected   []observe.Ejection
	readmits  []observe.Readmission
	endpoints [][]string
}

func record[E any](w *recorder, list *[]E, event E) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, event)
}

func (w *recorder) Retried(e observe.Retry)                 { record(w, &w.retries, e) }
func (w *recorder) FailedOver(e observe.Failover)           { record(w, &w.failovers, e) }
func (w *recorder) HedgeSent(e observe.Hedge)               { record(w, &w.sent, e) }
func (w *recorder) HedgeWon(e observe.Hedge)                { record(w, &w.won, e) }
func (w *recorder) OutcomeUnknown(e observe.UnknownOutcome) { record(w, &w.unknown, e) }
func (w *recorder) Picked(e observe.Pick)                   { record(w, &w.picks, e) }
func (w *recorder) Ejected(e observe.Ejection)              { record(w, &w.ejected, e) }
func (w *recorder) Readmitted(e observe.Readmission)        { record(w, &w.readmits, e) }
func (w *recorder) EndpointsSet(e []string)                 { record(w, &w.endpoints, e) }

// fakeClientConn is gRPC's side of a policy. The test sets the states of its SubConns.
type fakeClientConn struct {
	gbalancer.ClientConn
	t      *testing.T
	policy gbalancer.Balancer

	mu        sync.Mutex
	picker    gbalancer.Picker
	subConns  map[string]*fakeSubConn // by address, the latest
	endpoints map[string]*balancer.Endpoint
}

// newFakeClientConn returns connected endpoints with the given addresses.
func newFakeClientConn(t *testing.T, addresses ...string) *fakeClientConn {
	p := &fakeClientConn{t: t, subConns: make(map[string]*fakeSubConn), endpoints: make(map[string]*balancer.Endpoint)}
	p.policy = gbalancer.Get(balancer.Prefix+DefaultStrategy).Build(p, gbalancer.BuildOptions{})
	t.Cleanup(p.policy.Close)
	p.set(addresses...)
	for len(p.endpoints) < len(addresses) {
		ep := p.pick().endpoint()
		p.endpoints[ep.Address()] = ep
	}
	return p
}

// of returns endpoints by their addresses.
func (p *fakeClientConn) of(addresses ...string) []*balancer.Endpoint {
	var eps []*balancer.Endpoint
	for _, a := range addresses {
		require.Contains(p.t, p.endpoints, a)
		eps = append(eps, p.endpoints[a])
	}
	return eps
}

// set replaces the endpoints, and connects new ones.
func (p *fakeClientConn) set(addresses ...string) {
	state := resolver.State{}
	for _, a := range addresses {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{
			Addresses: []resolver.Address{{Addr: a, Attributes: attributes.New("test", a)}},
		})
	}
	_ = p.policy.UpdateClientConnState(gbalancer.ClientConnState{ResolverState: state})
	for _, a := range addresses {
		p.setState(a, connectivity.Ready)
	}
}

// setState changes the state of a connection.
func (p *fakeClientConn) setState(address string, s connectivity.State) {
	p.mu.Lock()
	sc := p.subConns[address]
	p.mu.Unlock()
	require.NotNil(p.t, sc, address)
	change := gbalancer.SubConnState{ConnectivityState: s}
	if s == connectivity.TransientFailure {
		change.ConnectionError = errGone
	}
	sc.listener(change)
}

// pick makes and returns an attempt that is answered.
func (p *fakeClientConn) pick(avoid ...*balancer.Endpoint) *attempt {
	a := newAttempt(p.t)
	a.Avoid = avoid
	result, err := p.pickFor(a)
	require.NoError(p.t, err)
	result.Done(gbalancer.DoneInfo{BytesSent: true, BytesReceived: true})
	return a
}

func (p *fakeClientConn) pickFor(a *attempt) (gbalancer.PickResult, error) {
	p.mu.Lock()
	picker := p.picker
	p.mu.Unlock()
	return picker.Pick(gbalancer.PickInfo{FullMethodName: "/s/m", Ctx: a.ctx})
}

func newAttempt(t *testing.T) *attempt {
	a := new(attempt)
	newTestCaller(nil, nil).start(t.Context(), a, &properties{})
	t.Cleanup(a.release)
	return a
}

// NewSubConn implements balancer.ClientConn.
func (p *fakeClientConn) NewSubConn(addrs []resolver.Address, o gbalancer.NewSubConnOptions) (gbalancer.SubConn, error) {
	sc := &fakeSubConn{listener: o.StateListener}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subConns[addrs[0].Addr] = sc
	return sc, nil
}

// UpdateState implements balancer.ClientConn.
func (p *fakeClientConn) UpdateState(s gbalancer.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.picker = s.Picker
}

type fakeSubConn struct {
	gbalancer.SubConn
	listener func(gbalancer.SubConnState)
}

func (*fakeSubConn) Connect()  {}
func (*fakeSubConn) Shutdown() {}

func (*fakeSubConn) RegisterHealthListener(listen func(gbalancer.SubConnState)) {
	listen(gbalancer.SubConnState{ConnectivityState: connectivity.Ready})
}
