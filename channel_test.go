package quorate_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/keepalive"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
	"github.com/quorate/quorate/pool/grpcpool"
	"github.com/quorate/quorate/resolver/static"
)

const (
	emptyCall = testgrpc.TestService_EmptyCall_FullMethodName
	unaryCall = testgrpc.TestService_UnaryCall_FullMethodName
)

// backend is a gRPC server in memory that can freeze: nothing is read or written, and its
// connections stay open.
type backend struct {
	testgrpc.UnimplementedTestServiceServer
	*bufconn.Listener
	frozen atomic.Pointer[chan struct{}] // what it waits for, nil if it is not frozen
	pause  atomic.Int64                  // of each call, in nanoseconds
	calls  atomic.Int64
	code   atomic.Int32 // of calls that fail
	health *grpchealth.Server
	// unreachableUntil is until when dials are refused, nil for none.
	unreachableUntil atomic.Pointer[time.Time]

	accepted atomic.Int64 // connections
}

func (b *backend) freeze() { b.frozen.Store(new(make(chan struct{}))) }

func (b *backend) thaw() {
	if gate := b.frozen.Swap(nil); gate != nil {
		close(*gate)
	}
}

func (b *backend) wait() {
	if gate := b.frozen.Load(); gate != nil {
		<-*gate
	}
}

// Accept counts connections.
func (b *backend) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	b.accepted.Add(1)
	return frozenConn{c, b}, nil
}

func (b *backend) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	b.calls.Add(1)
	_ = pause.For(ctx, 5*time.Millisecond+time.Duration(b.pause.Load()))
	if code := codes.Code(b.code.Load()); code != codes.OK { //nolint:gosec // it is a code
		return nil, status.Error(code, "it fails")
	}
	return &testgrpc.Empty{}, ctx.Err()
}

func (b *backend) UnaryCall(ctx context.Context, r *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	_, err := b.EmptyCall(ctx, nil)
	return &testgrpc.SimpleResponse{Payload: &testgrpc.Payload{Body: make([]byte, r.GetResponseSize())}}, err
}

// StreamingOutputCall sends a message each 100 ms.
func (b *backend) StreamingOutputCall(_ *testgrpc.StreamingOutputCallRequest, s testgrpc.TestService_StreamingOutputCallServer) error {
	for s.Context().Err() == nil {
		b.calls.Add(1)
		if err := s.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
			return err
		}
		_ = pause.For(s.Context(), 100*time.Millisecond)
	}
	return nil
}

// FullDuplexCall answers each message.
func (b *backend) FullDuplexCall(s testgrpc.TestService_FullDuplexCallServer) error {
	if err := s.SendHeader(nil); err != nil {
		return err
	}
	for {
		switch _, err := s.Recv(); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
		if err := s.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// StreamingInputCall takes all messages.
func (b *backend) StreamingInputCall(s testgrpc.TestService_StreamingInputCallServer) error {
	for {
		switch _, err := s.Recv(); err {
		case nil:
		case io.EOF:
			return s.SendAndClose(&testgrpc.StreamingInputCallResponse{})
		default:
			return err
		}
	}
}

type frozenConn struct {
	net.Conn
	backend *backend
}

func (c frozenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.backend.wait()
	return n, err
}

func (c frozenConn) Write(p []byte) (int, error) {
	c.backend.wait()
	return c.Conn.Write(p)
}

// serve starts three backends, and returns them, a client over the channel that connect makes, and a function
// that ends all of them.
func serve(t *testing.T, connect func(target string, names resolver.Builder, dialer grpc.DialOption) (closer, error)) ([]*backend, testgrpc.TestServiceClient, func()) {
	t.Helper()
	backends := make([]*backend, 3)
	byName := make(map[string]*backend)
	var servers []*grpc.Server
	for i := range backends {
		b := &backend{Listener: bufconn.Listen(1 << 16), health: grpchealth.NewServer()}
		backends[i], byName["10.0.0."+strconv.Itoa(i+1)+":80"] = b, b
		servers = append(servers, grpctest.ServeOn(t, b, func(s grpc.ServiceRegistrar) {
			testgrpc.RegisterTestServiceServer(s, b)
			healthpb.RegisterHealthServer(s, b.health)
		}))
	}
	names, err := static.NewBuilder(static.Config{})
	require.NoError(t, err)
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		if until := byName[address].unreachableUntil.Load(); until != nil && time.Now().Before(*until) {
			return nil, errors.New("refused")
		}
		return byName[address].DialContext(ctx)
	}
	conn, err := connect("static:///"+strings.Join(slices.Sorted(maps.Keys(byName)), ","), names, grpc.WithContextDialer(dial))
	require.NoError(t, err)
	return backends, testgrpc.NewTestServiceClient(conn), func() {
		assert.NoError(t, conn.Close())
		for i, s := range servers {
			backends[i].thaw()
			s.Stop()
		}
	}
}

// callsOf returns how many calls the backends have received.
func callsOf(backends []*backend) (sum int64) {
	for _, b := range backends {
		sum += b.calls.Load()
	}
	return sum
}

// listOf returns the state of a resolver that lists these backends.
func listOf(addresses ...string) (s resolver.State) {
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: a}}})
	}
	return s
}

type closer interface {
	grpc.ClientConnInterface
	Close() error
}

// reads and writes return a call of a method that may be repeated, and of one that may not, whose messages have 100 bytes.
func reads(client testgrpc.TestServiceClient) func(context.Context) error {
	return func(ctx context.Context) error { _, err := client.EmptyCall(ctx, &testgrpc.Empty{}); return err }
}

func writes(client testgrpc.TestServiceClient) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: make([]byte, 100)}, ResponseSize: 100})
		return err
	}
}

// load makes calls of a kind from several callers, each with a deadline of 8 s, for the given
// time. It returns how long the slowest took, and the errors.
func load(t *testing.T, callers int, length time.Duration, call func(context.Context) error) (slowest time.Duration, failed []error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var mu sync.Mutex
	var work sync.WaitGroup
	for range callers {
		work.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				within, cancel := context.WithTimeout(t.Context(), 8*time.Second)
				err := call(within)
				cancel()
				took := time.Since(began)
				mu.Lock()
				slowest = max(slowest, took)
				if err != nil {
					failed = append(failed, err)
				}
				mu.Unlock()
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	work.Wait()
	return slowest, failed
}

// TestAFrozenBackendHoldsNoCall shows what README and docs/toolkit.md say.
func TestAFrozenBackendHoldsNoCall(t *testing.T) {
	channel := quorate.Channel{Calls: keepalive.Calls{Repeatable: []string{emptyCall}, Once: []string{unaryCall}}}
	for name, connect := range map[string]func(string, resolver.Builder, grpc.DialOption) (closer, error){
		"grpc": over(t, channel),
		"grpcpool": func(target string, names resolver.Builder, dialer grpc.DialOption) (closer, error) {
			c := channel
			c.Resolvers = []resolver.Builder{names}
			options, err := c.DialOptions()
			require.NoError(t, err)
			return grpcpool.NewClient(target, grpcpool.Config{TransportCredentials: insecure.NewCredentials()}, append(options, dialer)...)
		},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			backends, client, stop := serve(t, connect)
			defer stop()
			read := reads(client)
			write := writes(client)
			load(t, 4, 2*time.Second, read)
			load(t, 4, 2*time.Second, write)
			time.AfterFunc(time.Second, backends[0].freeze)
			var work sync.WaitGroup
			work.Go(func() {
				slowest, failed := load(t, 8, 4*time.Second, read)
				t.Logf("slowest read %v", slowest)
				assert.LessOrEqual(t, slowest, 700*time.Millisecond)
				assert.Empty(t, failed)
			})
			work.Go(func() {
				slowest, failed := load(t, 8, 4*time.Second, write)
				t.Logf("slowest write %v, %d failed", slowest, len(failed))
				assert.LessOrEqual(t, slowest, 700*time.Millisecond)
				assert.LessOrEqual(t, len(failed), 8, "no more than were under way")
				for _, err := range failed {
					assert.Equal(t, codes.Unavailable, status.Code(err), err)
				}
			})
			work.Wait()
			backends[0].thaw()
			before := backends[0].calls.Load()
			load(t, 4, 4*time.Second, read)
			assert.Greater(t, backends[0].calls.Load(), before, "it is used again")
		})
	}
}

// observer records the events of a channel, and counts its picks.
type observer struct {
	observe.None
	mu                  sync.Mutex
	sets                [][]string
	resolved            []observe.Resolution
	ejected, readmitted []string
	picks               map[string]int
	hedged, won         []observe.Hedge
	attached            introspect.Channels
}

func (o *observer) Attach(s introspect.Source) (detach func()) { return o.attached.Add(s) }

func (o *observer) note(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

func (o *observer) EndpointsSet(all []string) { o.note(func() { o.sets = append(o.sets, all) }) }
func (o *observer) Resolved(e observe.Resolution) {
	o.note(func() { o.resolved = append(o.resolved, e) })
}

func (o *observer) Picked(e observe.Pick) { o.note(func() { o.picks[e.Endpoint]++ }) }

func (o *observer) Ejected(e observe.Ejection) {
	o.note(func() { o.ejected = append(o.ejected, e.Endpoint+" "+e.State.String()) })
}

func (o *observer) Readmitted(e observe.Readmission) {
	o.note(func() { o.readmitted = append(o.readmitted, e.Endpoint) })
}
func (o *observer) HedgeSent(e observe.Hedge) { o.note(func() { o.hedged = append(o.hedged, e) }) }
func (o *observer) HedgeWon(e observe.Hedge)  { o.note(func() { o.won = append(o.won, e) }) }

func TestAChannelIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &observer{picks: make(map[string]int)}
		channel := repeatable
		channel.Observer = o
		backends, client, stop := serve(t, over(t, channel))
		read := reads(client)
		load(t, 4, 2*time.Second, read)
		backends[0].freeze()
		load(t, 4, 2*time.Second, read)
		backends[0].thaw()
		load(t, 4, 15*time.Second, read)
		assert.Len(t, o.attached.Introspect(introspect.Options{}).Endpoints, 3)
		all := []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"}
		o.note(func() {
			assert.Equal(t, [][]string{all}, o.sets)
			assert.Equal(t, []observe.Resolution{{Target: "static:///" + strings.Join(all, ","), Endpoints: 3}}, o.resolved)
			assert.ElementsMatch(t, all, slices.Collect(maps.Keys(o.picks)))
			assert.Equal(t, []string{"10.0.0.1:80 lagging"}, o.ejected)
			assert.Equal(t, []string{"10.0.0.1:80"}, o.readmitted)
			require.NotEmpty(t, o.hedged)
			assert.Equal(t, "10.0.0.1:80", o.hedged[0].First)
			assert.NotEqual(t, "10.0.0.1:80", o.hedged[0].Second)
			assert.NotEmpty(t, o.won)
		})
		stop()
		assert.Empty(t, o.sets[len(o.sets)-1], "a channel that is closed has none")
		assert.Empty(t, o.attached.Metrics())
	})
}

// A resolver's error is reported with what the channel still has; an observer without resolvers
// of the user's gets those of gRPC.
func TestAnErrorOfAResolverIsObserved(t *testing.T) {
	o := &observer{picks: make(map[string]int)}
	scripted := manual.NewBuilderWithScheme("scripted")
	scripted.InitialState(listOf("10.0.0.1:80"))
	options, err := quorate.Channel{TransportCredentials: insecure.NewCredentials(), Resolvers: []resolver.Builder{scripted}, Observer: o}.DialOptions()
	require.NoError(t, err)
	refused := grpc.WithContextDialer(refuse)
	conn, err := grpc.NewClient("scripted:///svc", append(options, refused)...)
	require.NoError(t, err)
	conn.Connect()
	scripted.CC().ReportError(errors.New("the source is unreachable"))
	require.Len(t, o.resolved, 2)
	assert.Equal(t, 1, o.resolved[1].Endpoints)
	require.EqualError(t, o.resolved[1].Err, "the source is unreachable")

	scripted.BuildCallback = func(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) {
		_ = cc.UpdateState(listOf("10.0.0.2:80"))
		_ = conn.Close() // the second channel has endpoints
	}
	second, err := grpc.NewClient("scripted:///svc", append(options, refused)...)
	require.NoError(t, err)
	second.Connect()
	require.NoError(t, second.Close())
	assert.Equal(t, [][]string{{"10.0.0.1:80"}, {"10.0.0.2:80"}, {"10.0.0.1:80"}, nil}, o.sets)

	o = &observer{picks: make(map[string]int)}
	options, err = quorate.Channel{TransportCredentials: insecure.NewCredentials(), Observer: o}.DialOptions()
	require.NoError(t, err)
	conn, err = grpc.NewClient("passthrough:///10.0.0.1:80", append(options, refused)...)
	require.NoError(t, err)
	conn.Connect()
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.sets) == 1
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, conn.Close())
	assert.Equal(t, [][]string{{"10.0.0.1:80"}, nil}, o.sets)
}

// TestALateAnswerIsHedged slows one backend down. A method that is named by itself is not one of its service's.
func TestALateAnswerIsHedged(t *testing.T) {
	service := []string{"/grpc.testing.TestService/"}
	for name, calls := range map[string]keepalive.Calls{
		"once": {Repeatable: service, Once: []string{unaryCall}},
		"base": {Repeatable: service, Base: `{"methodConfig": [{"name": [{"service": "grpc.testing.TestService", "method": "UnaryCall"}]}]}`},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			backends, client, stop := serve(t, over(t, quorate.Channel{Policy: "quorate_round_robin", Calls: calls}))
			defer stop()
			read := reads(client)
			write := writes(client)
			load(t, 3, 2*time.Second, read)
			load(t, 3, 2*time.Second, write)
			backends[0].pause.Store(int64(400 * time.Millisecond))
			began := time.Now()
			require.NoError(t, read(t.Context()))
			require.NoError(t, read(t.Context()))
			require.NoError(t, read(t.Context()))
			assert.Less(t, time.Since(began), 300*time.Millisecond, "one of three went to the slow one")
			before := callsOf(backends)
			for range 3 {
				require.NoError(t, write(t.Context()))
			}
			assert.EqualValues(t, 3, callsOf(backends)-before, "a call that is made once has no hedge")
		})
	}
}

func TestChannelsThatAreRefused(t *testing.T) {
	for want, c := range map[string]quorate.Channel{
		`Channel.Policy: "round_robin"`:           {Policy: "round_robin"},
		"Channel.Calls.Base chooses a policy":     {Calls: keepalive.Calls{Base: `{"loadBalancingConfig": [{"pick_first": {}}]}`}},
		"Channel.Calls.Base is no service config": {Calls: keepalive.Calls{Base: "no"}},
		`Calls.Once[0]: "Get"`:                    {Calls: keepalive.Calls{Once: []string{"Get"}}},
		"Calls.Timeout: -1s":                      {Calls: keepalive.Calls{Timeout: -time.Second}},
		"Calls.MaxRequest: -1":                    {Calls: keepalive.Calls{MaxRequest: -1}},
		"Calls.MaxRequest: 67108865":              {Calls: keepalive.Calls{MaxRequest: 64<<20 + 1}},
		`methodConfig[1]: gRPC-Go has no "hedgingPolicy"`: {Calls: keepalive.Calls{
			Base: `{"methodConfig": [{"name": [{}]}, {"name": [{"service": "a.B"}], "hedgingPolicy": {"maxAttempts": 3}}]}`,
		}},
		`methodConfig[0]: unknown key "maxRequestBytes"`: {Calls: keepalive.Calls{Base: `{"methodConfig": [{"name": [{}], "maxRequestBytes": 3}]}`}},
		`Channel.Calls.Base: unknown key "MethodConfig"`: {Calls: keepalive.Calls{Base: `{"MethodConfig": []}`}},
		`Calls.Base: unknown key "LoadBalancingConfig"`:  {Calls: keepalive.Calls{Base: `{"LoadBalancingConfig": []}`}},
		`"maxRequestMessageBytes" would not count for /a.B/Get`: {Calls: keepalive.Calls{
			Repeatable: []string{"a.B/Get"}, Base: `{"methodConfig": [{"name": [{}], "maxRequestMessageBytes": 3}]}`,
		}},
		`"timeout" would not count for /a.B/Put`: {Calls: keepalive.Calls{
			Once: []string{"/a.B/Put"}, Base: `{"methodConfig": [{"name": [{"service": "a.B"}], "timeout": "1s"}]}`,
		}},
		"Channel.DrainTimeout: -1s; it must be positive": {DrainTimeout: -time.Second},
		"Channel.Keepalive: keepalive: Client.Time:":     {Keepalive: keepalive.Pair{Client: keepalive.Client{Time: time.Second}}},
		"Channel.MaxEjectionPercent: 101":                {MaxEjectionPercent: 101},
	} {
		_, err := c.DialOptions()
		require.ErrorContains(t, err, want)
	}
}

// over returns a way to connect that uses the Channel, and options of the program.
func over(t *testing.T, c quorate.Channel, own ...grpc.DialOption) func(string, resolver.Builder, grpc.DialOption) (closer, error) {
	t.Helper()
	return func(target string, names resolver.Builder, dialer grpc.DialOption) (closer, error) {
		c.TransportCredentials, c.Resolvers = insecure.NewCredentials(), []resolver.Builder{names}
		options, err := c.DialOptions()
		require.NoError(t, err)
		return grpc.NewClient(target, append(append(options, own...), dialer)...)
	}
}

var repeatable = quorate.Channel{Calls: keepalive.Calls{Repeatable: []string{emptyCall}}}

// Many more calls hang on a frozen backend than the budget of hedges has tokens.
func TestNoRepeatableCallFailsUnderLoad(t *testing.T) {
	for name, tc := range map[string]struct {
		callers, frozen int
		limit           time.Duration
	}{
		"8 callers":                            {8, 1, 300 * time.Millisecond},
		"300 callers":                          {300, 1, 300 * time.Millisecond},
		"the second attempt meets another one": {30, 2, 600 * time.Millisecond},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			backends, client, stop := serve(t, over(t, repeatable))
			defer stop()
			read := reads(client)
			load(t, 8, 2*time.Second, read)
			time.AfterFunc(50*time.Millisecond, func() {
				for _, b := range backends[:tc.frozen] {
					b.freeze()
				}
			})
			slowest, failed := load(t, tc.callers, 300*time.Millisecond, read)
			t.Logf("slowest %v", slowest)
			assert.LessOrEqual(t, slowest, tc.limit)
			assert.Empty(t, failed)
		})
	}
}

// callerWatcher is the Watcher of a caller. It counts the calls that are overdue.
type callerWatcher struct{ overdue atomic.Int64 }

func (w *callerWatcher) Overdue() { w.overdue.Add(1) }
func (*callerWatcher) Cut(error)  {}

func TestAnAttemptOfTheCallerIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &observer{picks: make(map[string]int)}
		channel := repeatable
		channel.Observer = o
		backends, client, stop := serve(t, over(t, channel))
		defer stop()
		read := reads(client)
		load(t, 8, 2*time.Second, read)
		before := connections(backends)
		bulk := &balancer.Attempt{Conn: balancer.Bulk}
		require.NoError(t, read(balancer.WithAttempt(t.Context(), bulk)))
		assert.Equal(t, before+1, connections(backends), "a connection of its class")
		require.NotNil(t, bulk.Endpoint())
		assert.True(t, bulk.Answered())

		backends[0].freeze()
		w := new(callerWatcher)
		load(t, 30, time.Second, func(ctx context.Context) error {
			return read(balancer.WithAttempt(ctx, &balancer.Attempt{Watcher: w}))
		})
		assert.Positive(t, w.overdue.Load())
	})
}

// A call that is cut goes elsewhere, also if an interceptor of the program returns the error of its context.
func TestAnInterceptorHidesNoCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		cut := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if calls++; calls == 1 {
				balancer.AttemptFrom(ctx).Watcher.Cut(status.Error(codes.Unavailable, "frozen"))
			}
			err := invoke(ctx, method, req, reply, cc, opts...)
			return cmp.Or(ctx.Err(), err)
		})
		_, client, stop := serve(t, over(t, repeatable, cut))
		defer stop()
		assert.NoError(t, reads(client)(t.Context()))
		assert.Equal(t, 2, calls)
	})
}

func connections(backends []*backend) (sum int64) {
	for _, b := range backends {
		sum += b.accepted.Load()
	}
	return sum
}
