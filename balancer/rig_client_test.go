package balancer_test

import (
	"context"
	"slices"
	"sync"
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
	"github.com/quorate/quorate/internal/pause"
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
	term    *atomic.Uint64 // the term that servers name, nil for none
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
	term     atomic.Uint64 // the term that service probes show
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
		o := c.call(c.t.Context(), attempt{only: ep})
		require.NoError(c.t, o.err)
		ep.Learn(pb.TestService_EmptyCall_FullMethodName, o.took, 20/len(eps)) // a shape is learnt after 20 calls
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
	need      balancer.Need
	write     bool
	shape     string
	only      *balancer.Endpoint // its endpoint; nil for any
	unwatched bool               // it has no Watcher
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
	if !a.unwatched {
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
		go func() { outcomes <- c.call(context.Background(), a) }()
	}
	return outcomes
}

// succeed waits for the outcomes of calls that started, all of which must succeed.
func succeed(t *testing.T, outcomes <-chan outcome) {
	t.Helper()
	for range cap(outcomes) {
		require.NoError(t, (<-outcomes).err)
	}
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

// load makes calls continuously.
type load struct {
	stop     context.CancelFunc
	wg       sync.WaitGroup
	mu       sync.Mutex
	outcomes []outcome
}

// load makes calls with a deadline of timeout, with pauses between them.
func (c *client) load(callers int, pause, timeout time.Duration, write bool) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{stop: cancel}
	c.t.Cleanup(func() { l.end() })
	for i := range callers {
		l.wg.Go(func() {
			time.Sleep(pause * time.Duration(i) / time.Duration(callers))
			for ctx.Err() == nil {
				call, end := context.WithTimeout(context.Background(), timeout)
				o := c.call(call, attempt{write: write})
				end()
				l.mu.Lock()
				l.outcomes = append(l.outcomes, o)
				l.mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	return l
}

// end stops the load, and returns the outcomes of its calls.
func (l *load) end() []outcome {
	l.stop()
	l.wg.Wait()
	return l.outcomes
}

// count returns how many outcomes are so.
func count(outcomes []outcome, is func(outcome) bool) (n int) {
	for _, o := range outcomes {
		if is(o) {
			n++
		}
	}
	return n
}

func failed(outcomes []outcome) int {
	return count(outcomes, func(o outcome) bool { return o.err != nil })
}

// sum adds up a number of each.
func sum[T any, N int | int64](all []T, of func(T) N) (n N) {
	for _, one := range all {
		n += of(one)
	}
	return n
}

// connections counts the open connections to the servers, dials how often they were dialed, probesOf the probes of clients.
func connections(servers []*server) int {
	return sum(servers, func(s *server) int { return len(s.connections()) })
}

func dials(servers []*server) int64 {
	return sum(servers, func(s *server) int64 { return s.dials.Load() })
}

func probesOf(clients []*client) int64 {
	return sum(clients, func(c *client) int64 { return c.probes.Load() })
}

// stream is an open stream of a client.
type stream struct {
	*balancer.Attempt
	cancel context.CancelFunc
	heard  atomic.Int64

	// ended is closed at the end of the stream, after these are set:
	ended   chan struct{}
	err     error
	cut     error // why it was cut, nil if it was not
	endedAt time.Time
}

// open opens a stream at an endpoint, any if nil, and receives its messages.
func (c *client) open(class balancer.ConnClass, only *balancer.Endpoint) *stream {
	c.t.Helper()
	s, err := c.tryOpen(c.t.Context(), class, only)
	require.NoError(c.t, err)
	return s
}

func (c *client) tryOpen(ctx context.Context, class balancer.ConnClass, only *balancer.Endpoint) (*stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watcher{cancel: cancel}
	s := &stream{Attempt: &balancer.Attempt{Conn: class, Stream: true, Watcher: w}, cancel: func() { cancel(nil) }, ended: make(chan struct{})}
	if only != nil {
		s.Avoid, s.AvoidStrictly = c.others(only), true
	}
	rpc, err := pb.NewTestServiceClient(c.ClientConn).StreamingOutputCall(
		balancer.WithAttempt(ctx, s.Attempt), &pb.StreamingOutputCallRequest{}, grpc.WaitForReady(true))
	if err == nil {
		_, err = rpc.Header()
	}
	if err != nil {
		cancel(err)
		return nil, err
	}
	go func() {
		defer close(s.ended)
		defer cancel(nil)
		for s.err == nil {
			if _, s.err = rpc.Recv(); s.err == nil {
				s.Heard()
				s.heard.Add(1)
			}
		}
		s.endedAt = time.Now()
		if cut := w.cut.Load(); cut != nil {
			s.cut = *cut
		}
	}()
	return s, nil
}

// close ends the stream.
func (s *stream) close() {
	s.cancel()
	<-s.ended
}

// server returns the server of an endpoint.
func (c *client) server(ep *balancer.Endpoint) *server {
	c.t.Helper()
	i := slices.IndexFunc(c.servers, func(s *server) bool { return s.addr == ep.Address() })
	require.GreaterOrEqual(c.t, i, 0, ep.Address())
	return c.servers[i]
}

// isOpen reports whether the stream has not ended.
func (s *stream) isOpen() bool { return !pause.Closed(s.ended) }

// endsWithin returns why the stream was cut, and fails the test unless it ends in time.
func (s *stream) endsWithin(t *testing.T, limit time.Duration) (cut error) {
	t.Helper()
	select {
	case <-s.ended:
		return s.cut
	case <-time.After(limit):
		require.Fail(t, "the stream continues", "for %v", limit)
		return nil
	}
}

// events records the events of the policy.
type events struct {
	mu      sync.Mutex
	changes []change
	closed  []string // addresses
	reasons []error
}

type change struct {
	health.Change
	at time.Time
}

func (*events) Picked(*balancer.Endpoint, balancer.Call) {}

func (*events) Ended(*balancer.Endpoint, balancer.Call, time.Duration, error) {}

func (e *events) Changed(_ *balancer.Endpoint, c health.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes = append(e.changes, change{c, time.Now()})
}

func (e *events) Closed(ep *balancer.Endpoint, reason error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed, e.reasons = append(e.closed, ep.Address()), append(e.reasons, reason)
}

// log logs the events for a failed test.
func (e *events) log(t *testing.T, began time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.changes) == 0 {
		return
	}
	for _, c := range e.changes {
		t.Log(c.at.Sub(began), c.Endpoint, c.From, "→", c.To, c.Evidence)
	}
	t.Log("closed:", e.reasons, "after", time.Since(began))
}

// reached returns the times at which a server entered a state, in order.
func (e *events) reached(s *server, state health.State) (at []time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.changes {
		if c.Endpoint == s.addr && c.To == state {
			at = append(at, c.at)
		}
	}
	return at
}

// ever reports whether any server was ever in one of the states.
func (e *events) ever(states ...health.State) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.changes, func(c change) bool { return slices.Contains(states, c.To) })
}

func (e *events) closedAddresses() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.closed)
}
