package balancer_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/grpcprobe"
)

const roundRobin = `{"quorate_round_robin":{}}`

// load calls from some goroutines until stop is called, which returns the longest call
// and how many failed.
func load(c *conn, callers int, timeout time.Duration) (stop func() (longest time.Duration, failed int64)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var failures atomic.Int64
	var mu sync.Mutex
	var slowest time.Duration
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				call, end := context.WithTimeout(context.Background(), timeout)
				start := time.Now()
				if c.call(call) != nil {
					failures.Add(1)
				}
				end()
				mu.Lock()
				slowest = max(slowest, time.Since(start))
				mu.Unlock()
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	return func() (time.Duration, int64) {
		cancel()
		wg.Wait()
		return slowest, failures.Load()
	}
}

func states(c *conn) map[string]health.State {
	m := map[string]health.State{}
	for _, s := range c.table.All() {
		m[s.Endpoint] = s.State
	}
	return m
}

func requireState(t *testing.T, c *conn, s *server, want health.State) {
	t.Helper()
	require.Eventually(t, func() bool { return states(c)[s.addr()] == want }, 10*time.Second, 5*time.Millisecond,
		"%v", want)
}

func TestCallsAreSpreadAndProveLife(t *testing.T) {
	servers := []*server{startServer(t), startServer(t), startServer(t)}
	c := connect(t, roundRobin, servers...)
	c.meetAll(t, servers...)
	before := servers[0].calls.Load()
	for range 300 {
		require.NoError(t, c.call(t.Context()))
	}
	assert.InDelta(t, 100, servers[0].calls.Load()-before, 2)
	for _, s := range servers {
		requireState(t, c, s, health.Serving)
		assert.Zero(t, s.probes.Load(), "traffic proves life")
		assert.Equal(t, int64(1), s.conns.Load())
	}
}

// A frozen server takes nothing with it: calls on it end within a second or so, others do
// not go there, and it is used again when it is back.
func TestFrozenServer(t *testing.T) {
	servers := []*server{startServer(t), startServer(t), startServer(t)}
	c := connect(t, roundRobin, servers...)
	c.meetAll(t, servers...)
	stop := load(c, 6, 10*time.Second)
	time.Sleep(200 * time.Millisecond)
	servers[0].freeze()
	requireState(t, c, servers[0], health.Dead)
	time.Sleep(300 * time.Millisecond)
	longest, failed := stop()
	assert.Less(t, longest, 5*time.Second)
	assert.LessOrEqual(t, failed, int64(6), "those that were under way")
	assert.Positive(t, failed)

	servers[0].thaw()
	requireState(t, c, servers[0], health.Serving)
	before := servers[0].calls.Load()
	for range 30 {
		require.NoError(t, c.call(t.Context()))
	}
	assert.GreaterOrEqual(t, servers[0].calls.Load()-before, int64(9))
	assert.Equal(t, 1, c.events.resetCount())
}

// Without another one that serves nothing is ejected: calls wait for the answer.
func TestOnlyServerIsNotEjected(t *testing.T) {
	s := startServer(t)
	c := connect(t, roundRobin, s)
	c.meetAll(t, s)
	s.freeze()
	done := make(chan error, 1)
	go func() { done <- c.call(context.Background()) }()
	requireState(t, c, s, health.Suspected)
	select {
	case err := <-done:
		require.NoError(t, err, "ended while frozen")
	case <-time.After(1500 * time.Millisecond):
	}
	s.thaw()
	require.NoError(t, <-done)
	requireState(t, c, s, health.Serving)
	assert.Zero(t, c.events.resetCount())
	assert.Equal(t, int64(1), s.conns.Load())
}

// Nor are all at once.
func TestAllFrozenNoneEjected(t *testing.T) {
	servers := []*server{startServer(t), startServer(t), startServer(t)}
	c := connect(t, roundRobin, servers...)
	c.meetAll(t, servers...)
	for _, s := range servers {
		s.freeze()
	}
	var wg sync.WaitGroup
	for range 9 {
		wg.Go(func() { assert.NoError(t, c.call(context.Background())) })
	}
	time.Sleep(1500 * time.Millisecond)
	for _, s := range servers {
		s.thaw()
	}
	wg.Wait()
	assert.Zero(t, c.events.resetCount())
}

// A call that takes its time on a server in order is left alone.
func TestLongCallIsNotCut(t *testing.T) {
	servers := []*server{startServer(t), startServer(t)}
	c := connect(t, roundRobin, servers...)
	c.meetAll(t, servers...)
	for range 50 {
		require.NoError(t, c.call(t.Context()))
	}
	servers[0].long.Store(int64(2 * time.Second))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { assert.NoError(t, c.call(t.Context())) })
	}
	wg.Wait()
	assert.Zero(t, c.events.resetCount())
	assert.Less(t, servers[0].probes.Load(), int64(20))
}

// A server that says that it does not serve gets no calls until it says that it does.
func TestServerThatRefuses(t *testing.T) {
	servers := []*server{startServer(t), startServer(t)}
	c := connectProbing(t, roundRobin, grpcprobe.Prober{}, servers...)
	c.meetAll(t, servers...)
	servers[0].status.Store(int32(healthpb.HealthCheckResponse_NOT_SERVING))
	servers[0].freeze() // makes it a suspect, so that it is asked
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2 {
			_ = c.call(context.Background())
		}
	}()
	requireState(t, c, servers[0], health.Suspected)
	servers[0].thaw()
	requireState(t, c, servers[0], health.NotServing)
	<-done
	before := servers[0].calls.Load()
	for range 20 {
		require.NoError(t, c.call(t.Context()))
	}
	assert.Equal(t, before, servers[0].calls.Load())
	servers[0].status.Store(int32(healthpb.HealthCheckResponse_SERVING))
	requireState(t, c, servers[0], health.Serving)
}

// A stream on a frozen server ends, though nobody calls it.
func TestStreamOnFrozenServer(t *testing.T) {
	servers := []*server{startServer(t), startServer(t)}
	c := connect(t, roundRobin, servers...)
	c.meetAll(t, servers...)
	picked := &recorder{}
	ctx := balancer.WithAttempt(t.Context(), &balancer.Attempt{Lane: balancer.Streams, Observer: picked})
	stream, err := pb.NewTestServiceClient(c.ClientConn).StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
	require.NoError(t, err)
	ep := picked.endpoint()
	flow := ep.OpenFlow(balancer.Streams, nil)
	defer flow.Close()
	var victim *server
	for _, s := range servers {
		if s.addr() == ep.Address() {
			victim = s
		}
	}
	assert.Equal(t, int64(2), victim.conns.Load(), "streams have a connection of their own")
	frozen := time.Time{}
	for n := 0; ; n++ {
		_, err := stream.Recv()
		if err != nil {
			require.Greater(t, n, 150)
			assert.Equal(t, codes.Unavailable, status.Code(err))
			break
		}
		flow.Heard()
		if n == 150 { // it has shown for a second how often it speaks
			frozen = time.Now()
			victim.freeze()
		}
	}
	assert.Less(t, time.Since(frozen), 5*time.Second)
	requireState(t, c, victim, health.Dead)
	victim.thaw()
	requireState(t, c, victim, health.Serving)
}

// An endpoint that the resolver no longer names drains.
func TestRemovedEndpoint(t *testing.T) {
	servers := []*server{startServer(t), startServer(t)}
	c := connect(t, `{"quorate_round_robin":{"drainTimeout":"0.3s"}}`, servers...)
	c.meetAll(t, servers...)
	servers[0].stall.Store(true)
	var wg sync.WaitGroup
	picked := &recorder{}
	wg.Go(func() {
		for {
			ctx := balancer.WithAttempt(context.Background(), &balancer.Attempt{Observer: picked})
			if err := c.call(ctx); err != nil {
				assert.Equal(t, codes.Unavailable, status.Code(err))
				return
			}
		}
	})
	require.Eventually(t, func() bool { ep := picked.endpoint(); return ep != nil && ep.Address() == servers[0].addr() }, 5*time.Second, time.Millisecond)
	c.resolver.UpdateState(c.state(servers[1]))
	<-picked.endpoint().Gone()
	require.NoError(t, c.call(t.Context()))
	wg.Wait()
	require.Eventually(t, func() bool { return len(c.table.All()) == 1 }, 5*time.Second, 5*time.Millisecond)
}

func TestNoEndpoints(t *testing.T) {
	c := connect(t, roundRobin)
	_, err := pb.NewTestServiceClient(c.ClientConn).EmptyCall(t.Context(), &pb.Empty{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "no endpoints")
}

// recorder remembers where an attempt went.
type recorder struct {
	mu sync.Mutex
	ep *balancer.Endpoint
}

func (r *recorder) Picked(ep *balancer.Endpoint) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ep = ep
	return nil
}

func (r *recorder) endpoint() *balancer.Endpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ep
}

func (*recorder) NotPicked() {}
func (*recorder) Ended(bool) {}
func (*recorder) Overdue()   {}
func (*recorder) Cut(error)  {}
