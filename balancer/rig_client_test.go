package balancer_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/health"
)

const roundRobin = `{"quorate_round_robin":{}}`

// Errors of the test servers that are classified.
var (
	errNoLeader = status.Error(codes.FailedPrecondition, "no leader")
	errTimedOut = status.Error(codes.Aborted, "request timed out")
)

func classify(err error) (health.Kind, bool) {
	switch status.Code(err) {
	case codes.FailedPrecondition:
		return health.Degrading, true
	case codes.Aborted:
		return health.Suspicious, true
	default:
		return 0, false
	}
}

// prober counts the probes of a client.
type prober struct {
	service bool
	sent    *atomic.Int64
	term    *atomic.Uint64 // that servers name, nil for none
}

func (p prober) Probe(ctx context.Context, cc grpc.ClientConnInterface, report func(health.Report)) {
	p.sent.Add(1)
	if !p.service {
		if _, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{}); err == nil {
			report(health.Report{Kind: health.Answered})
		}
		return
	}
	_, err := pb.NewTestServiceClient(cc).UnaryCall(ctx, &pb.SimpleRequest{})
	kind, classified := classify(err)
	switch {
	case err == nil:
		r := health.Report{Kind: health.Served}
		if p.term != nil {
			r.Term = p.term.Load()
		}
		report(r)
	case classified && kind == health.Degrading:
		report(health.Report{Kind: kind, Err: err})
	case health.FromServer(err):
		report(health.Report{Kind: health.Answered, Err: err})
	}
}

// client is a ClientConn under test.
type client struct {
	*grpc.ClientConn
	t        *testing.T
	resolver *manual.Resolver
	servers  []*server
	events   *events
	options  balancer.Options
	monitor  *balancer.Monitor
	probes   atomic.Int64
	term     atomic.Uint64 // that service probes show
}

// connect connects to the servers by a policy. change may change its options.
func connect(t *testing.T, config string, servers []*server, change ...func(*balancer.Options)) *client {
	t.Helper()
	return connectBy(t, config, servers, nil, change...)
}

// connectBy is connect with more dial options.
func connectBy(t *testing.T, config string, servers []*server, dial []grpc.DialOption, change ...func(*balancer.Options)) *client {
	t.Helper()
	c := &client{
		t: t, resolver: manual.NewBuilderWithScheme("test"), servers: servers,
		events: &events{}, monitor: new(balancer.Monitor),
	}
	c.options = balancer.Options{
		Table: health.NewTable(), Monitor: c.monitor, Events: c.events, Classify: classify,
		Service: prober{true, &c.probes, &c.term}, Liveness: prober{sent: &c.probes},
	}
	for _, f := range change {
		f(&c.options)
	}
	c.resolver.InitialState(c.state(servers...))
	var err error
	c.ClientConn, err = grpc.NewClient("test:///", append([]grpc.DialOption{
		grpc.WithResolvers(c.resolver), grpc.WithContextDialer(dialer(servers)),
		grpc.WithTransportCredentials(balancer.Credentials(insecure.NewCredentials())), grpc.WithDisableRetry(),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[` + config + `]}`),
		grpc.WithConnectParams(balancer.ConnectParams()),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
	}, dial...)...)
	require.NoError(t, err)
	began := time.Now()
	t.Cleanup(func() {
		if t.Failed() {
			c.events.log(t, began)
		}
		_ = c.Close()
	})
	return c
}

// unprobed removes the probers.
func unprobed(o *balancer.Options) { o.Service, o.Liveness = nil, nil }

// toolkit leaves probes to the service config, as gRPC services do.
func toolkit(o *balancer.Options) { o.Service, o.Liveness, o.Classify = nil, nil, nil }

// warm connects to the servers, and measures their latency.
func warm(t *testing.T, config string, servers []*server, change ...func(*balancer.Options)) *client {
	t.Helper()
	c := connect(t, config, servers, change...)
	c.warm()
	return c
}

func (c *client) warm() {
	c.t.Helper()
	c.Connect()
	time.Sleep(10 * time.Millisecond)
	eps := c.monitor.Endpoints()
	for _, ep := range eps {
		for range 20/len(eps) + 1 { // a shape is learnt after 20 calls
			require.NoError(c.t, c.call(c.t.Context(), attempt{only: ep}).err)
		}
	}
}

// state returns the resolver state of the servers.
func (c *client) state(servers ...*server) resolver.State {
	var st resolver.State
	for _, s := range servers {
		st.Endpoints = append(st.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: s.addr}}})
	}
	return balancer.WithOptions(st, &c.options)
}

// endpoint returns the endpoint of a server.
func (c *client) endpoint(s *server) *balancer.Endpoint {
	eps := c.monitor.Endpoints()
	i := slices.IndexFunc(eps, func(ep *balancer.Endpoint) bool { return ep.Address() == s.addr })
	require.GreaterOrEqual(c.t, i, 0, s.addr)
	return eps[i]
}

func (c *client) is(s *server) health.State { return c.endpoint(s).State() }

// others returns all endpoints but one.
func (c *client) others(ep *balancer.Endpoint) []*balancer.Endpoint {
	return slices.DeleteFunc(slices.Clone(c.monitor.Endpoints()), func(o *balancer.Endpoint) bool { return o == ep })
}

// attempt describes a call.
type attempt struct {
	need  balancer.Need
	write bool
	shape string
	only  *balancer.Endpoint // its endpoint; nil for any
	deaf  bool               // it has no Watcher
	// deadline is how long its caller waits, 0 for ever.
	deadline time.Duration
	// takes is its duration, and answer its result; 0 and nil for a usual call.
	takes  time.Duration
	answer error
	// prompt and large are those of the Attempt.
	prompt, large bool
}

// send sends the request and waits for the answer.
func (a attempt) send(ctx context.Context, cc grpc.ClientConnInterface) error {
	service := pb.NewTestServiceClient(cc)
	if a.takes == 0 {
		_, err := service.EmptyCall(ctx, &pb.Empty{}, grpc.WaitForReady(true))
		return err
	}
	_, err := service.CacheableUnaryCall(ctx, &pb.SimpleRequest{
		Payload:        &pb.Payload{Body: []byte(a.takes.String())},
		ResponseStatus: &pb.EchoStatus{Code: int32(status.Code(a.answer)), Message: status.Convert(a.answer).Message()}, //nolint:gosec // codes are small
	}, grpc.WaitForReady(true))
	return err
}

var (
	aRead  = attempt{}
	aWrite = attempt{write: true}
)

// outcome is the end of a call.
type outcome struct {
	err     error
	cut     error // the reason given to its Watcher, nil if it was not cut
	at      *balancer.Endpoint
	began   time.Time
	took    time.Duration
	overdue int64 // how often the Watcher was called
	write   bool
}

// watcher ends a call that is cut.
type watcher struct {
	cancel  context.CancelCauseFunc
	cut     atomic.Pointer[error]
	overdue atomic.Int64
}

func (w *watcher) Overdue() { w.overdue.Add(1) }

func (w *watcher) Cut(reason error) {
	w.cut.CompareAndSwap(nil, &reason)
	w.cancel(reason)
}

// call makes one attempt of a call.
func (c *client) call(ctx context.Context, a attempt) outcome {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if a.deadline > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, a.deadline)
		defer stop()
	}
	w := &watcher{cancel: cancel}
	b := &balancer.Attempt{Need: a.need, Write: a.write, Prompt: a.prompt, Large: a.large, Shape: a.shape}
	if !a.deaf {
		b.Watcher = w
	}
	if a.only != nil {
		b.Avoid, b.AvoidStrictly = c.others(a.only), true
	}
	o := outcome{began: time.Now(), write: a.write}
	o.err = a.send(balancer.WithAttempt(ctx, b), c)
	o.took, o.at, o.overdue = time.Since(o.began), b.Endpoint(), w.overdue.Load()
	if cut := w.cut.Load(); cut != nil {
		o.cut = *cut
	}
	return o
}

func (c *client) read() outcome { return c.call(c.t.Context(), aRead) }

func (c *client) write() outcome { return c.call(c.t.Context(), aWrite) }

// reads makes reads, which must succeed.
func (c *client) reads(n int) {
	c.t.Helper()
	for range n {
		require.NoError(c.t, c.read().err)
	}
}

// starting starts calls to a server concurrently, and returns their outcomes.
func (c *client) starting(n int, s *server, a attempt) <-chan outcome {
	outcomes := make(chan outcome, n)
	a.only = c.endpoint(s)
	for range n {
		go func() {
			outcomes <- c.call(context.Background(), a)
		}()
	}
	return outcomes
}

// watched starts a read at a server that goes on when it is cut, which calls cut, and returns its Watcher.
func (c *client) watched(s *server, cut func(error)) *watcher {
	w := &watcher{cancel: cut}
	a := &balancer.Attempt{Watcher: w, Avoid: c.others(c.endpoint(s))}
	go func() { _ = aRead.send(balancer.WithAttempt(c.t.Context(), a), c) }()
	return w
}

// inBubble runs a test with servers, in virtual time.
func inBubble(t *testing.T, servers int, test func(t *testing.T, servers []*server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, startServers(t, servers)) })
}

// subtest is inBubble as a subtest.
func subtest(t *testing.T, name string, servers int, test func(t *testing.T, servers []*server)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, servers, test) })
}

// withClient is inBubble with a client that is warm.
func withClient(t *testing.T, servers int, test func(t *testing.T, c *client, servers []*server)) {
	t.Helper()
	inBubble(t, servers, func(t *testing.T, servers []*server) { test(t, warm(t, roundRobin, servers), servers) })
}

// each does something to each of the servers.
func each(servers []*server, do func(*server)) {
	for _, s := range servers {
		do(s)
	}
}

// received returns how many calls each server gets meanwhile.
func received(servers []*server, do func()) []int64 {
	calls := make([]int64, len(servers))
	for i, s := range servers {
		calls[i] = -s.calls.Load()
	}
	do()
	for i, s := range servers {
		calls[i] += s.calls.Load()
	}
	return calls
}

// within asserts that a condition becomes true in time.
func within(t *testing.T, limit time.Duration, what string, is func() bool) {
	t.Helper()
	start := time.Now()
	for !is() {
		if time.Since(start) > limit {
			require.Fail(t, what, "not within %v", limit)
		}
		time.Sleep(max(time.Millisecond, limit/2000))
	}
}
