package balancer_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// A server that lives and does not do its work, while others do, is not waited for.
func TestStalledServer(t *testing.T) {
	servers := []*server{startServer(t), startServer(t), startServer(t)}
	c := connect(t, roundRobin, servers...)
	c.meetAll(t, servers...)
	stop := load(c, 6, 10*time.Second)
	time.Sleep(200 * time.Millisecond)
	servers[0].stall.Store(true)
	requireState(t, c, servers[0], health.Lagging)
	time.Sleep(300 * time.Millisecond)
	longest, failed := stop()
	assert.Less(t, longest, 5*time.Second)
	assert.LessOrEqual(t, failed, int64(6), "those that were under way")
	assert.Equal(t, 1, c.events.resetCount())
	servers[0].stall.Store(false)
	requireState(t, c, servers[0], health.Serving)
}

// A server that is slower than others gets no calls until it has answered a few probes
// in good time, and none of its calls is cut.
func TestSlowServer(t *testing.T) {
	servers := []*server{startServer(t), startServer(t), startServer(t)}
	c := connect(t, roundRobin, servers...)
	c.meetAll(t, servers...)
	stop := load(c, 4, 10*time.Second)
	time.Sleep(200 * time.Millisecond)
	servers[0].delay.Store(int64(400 * time.Millisecond))
	requireState(t, c, servers[0], health.Slow)
	time.Sleep(500 * time.Millisecond)
	assert.Equal(t, health.Slow, states(c)[servers[0].addr()])
	servers[0].delay.Store(0)
	requireState(t, c, servers[0], health.Serving)
	_, failed := stop()
	assert.Zero(t, failed)
	assert.Zero(t, c.events.resetCount())
}

// A server that says that it has no leader serves local calls if need be, and no others,
// until it has one again.
func TestServerWithoutLeader(t *testing.T) {
	servers := []*server{startServer(t), startServer(t)}
	c := connect(t, roundRobin, servers...)
	c.meetAll(t, servers...)
	servers[0].refuse.Store(&errNoLeader)
	for range 2 {
		_ = c.call(t.Context())
	}
	requireState(t, c, servers[0], health.NoLeader)
	for range 20 {
		require.NoError(t, c.call(t.Context()))
	}
	servers[1].grpc.Stop()
	requireState(t, c, servers[1], health.Dead)
	local := balancer.WithAttempt(t.Context(), &balancer.Attempt{Need: balancer.Local})
	before := servers[0].calls.Load()
	require.Equal(t, codes.FailedPrecondition, status.Code(c.call(local)))
	require.Less(t, before, servers[0].calls.Load())
	servers[0].refuse.Store(nil)
	requireState(t, c, servers[0], health.Serving)
	require.NoError(t, c.call(t.Context()))
}

// Where calls usually take long, rounds of probes do too; but not for a server that says
// itself that it cannot serve, while others do.
func TestServerWithoutLeaderIsGivenUpSoon(t *testing.T) {
	servers := []*server{startServer(t), startServer(t)}
	c := connect(t, roundRobin, servers...)
	c.meetAll(t, servers...)
	for _, s := range servers {
		s.long.Store(int64(350 * time.Millisecond))
	}
	var calls sync.WaitGroup
	slow := balancer.WithAttempt(t.Context(), &balancer.Attempt{Class: "slow"})
	for range 40 {
		calls.Go(func() { assert.NoError(t, c.call(slow)) })
	}
	calls.Wait()
	for _, s := range servers {
		s.long.Store(0)
	}
	stop := load(c, 1, 10*time.Second)
	servers[0].refuse.Store(&errNoLeader)
	requireState(t, c, servers[0], health.NoLeader)
	start := time.Now()
	require.Eventually(t, func() bool { return c.events.resetCount() > 0 }, 10*time.Second, time.Millisecond)
	assert.Less(t, time.Since(start), 950*time.Millisecond, "rounds take a second")
	stop()
}

// A server that ends gracefully takes no new connections, and finishes what it has.
func TestWhatAServerFinishesIsNotCut(t *testing.T) {
	servers := []*server{startServer(t), startServer(t)}
	c := connect(t, roundRobin, servers...)
	c.meetAll(t, servers...)
	picked := &recorder{}
	ctx := balancer.WithAttempt(t.Context(), &balancer.Attempt{Lane: balancer.Streams, Observer: picked})
	stream, err := pb.NewTestServiceClient(c.ClientConn).StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	victim := serverAt(servers, picked.endpoint())
	others := slices.DeleteFunc(slices.Clone(picked.endpoint().Siblings()), func(ep *balancer.Endpoint) bool { return ep == picked.endpoint() })
	victim.long.Store(int64(time.Second))
	before := victim.calls.Load()
	call := make(chan error, 1)
	go func() { call <- c.call(balancer.WithAttempt(t.Context(), &balancer.Attempt{Avoid: others})) }()
	require.Eventually(t, func() bool { return victim.calls.Load() > before }, 10*time.Second, time.Millisecond)
	stop := load(c, 1, 10*time.Second)
	go victim.grpc.GracefulStop()
	requireState(t, c, victim, health.Dead)
	require.NoError(t, <-call)
	_, failed := stop()
	assert.Zero(t, failed)
	assert.Zero(t, c.events.resetCount())
}

// A connection that is broken without a word is closed; the endpoint stays in use.
func TestBrokenConnection(t *testing.T) {
	servers := []*server{startServer(t), startServer(t)}
	c := connect(t, roundRobin, servers...)
	c.meetAll(t, servers...)
	picked := &recorder{}
	ctx := balancer.WithAttempt(t.Context(), &balancer.Attempt{Lane: balancer.Streams, Observer: picked})
	stream, err := pb.NewTestServiceClient(c.ClientConn).StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
	require.NoError(t, err)
	flow := picked.endpoint().OpenFlow(balancer.Streams, nil)
	defer flow.Close()
	victim := serverAt(servers, picked.endpoint())
	stop := load(c, 2, 10*time.Second)
	for n := 0; ; n++ {
		if _, err := stream.Recv(); err != nil {
			break
		}
		flow.Heard()
		if n == 150 {
			victim.freezeOnly(2)
		}
	}
	_, failed := stop()
	assert.Zero(t, failed)
	assert.Zero(t, c.events.reached(health.Dead))
	victim.thaw()
	requireState(t, c, victim, health.Serving)
}

func serverAt(servers []*server, ep *balancer.Endpoint) *server {
	for _, s := range servers {
		if s.addr() == ep.Address() {
			return s
		}
	}
	return nil
}

// Streams share a connection, and need one each only where they are kept apart.
func TestStreamsShareAConnection(t *testing.T) {
	servers := []*server{startServer(t), startServer(t), startServer(t)}
	c := connect(t, roundRobin, servers...)
	c.meetAll(t, servers...)
	open := func(avoid ...*balancer.Endpoint) *balancer.Endpoint {
		picked := &recorder{}
		ctx := balancer.WithAttempt(t.Context(), &balancer.Attempt{Lane: balancer.Streams, Observer: picked, Avoid: avoid})
		_, err := pb.NewTestServiceClient(c.ClientConn).StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
		require.NoError(t, err)
		return picked.endpoint()
	}
	first := open()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { assert.Same(t, first, open()) })
	}
	wg.Wait()
	assert.NotSame(t, first, open(first))
	var conns int64
	for _, s := range servers {
		conns += s.conns.Load()
	}
	assert.Equal(t, int64(5), conns)
}

// An attempt that is told nothing of its endpoint's silence is told that it is overdue.
func TestOverdue(t *testing.T) {
	servers := []*server{startServer(t), startServer(t)}
	c := connect(t, roundRobin, servers...)
	c.meetAll(t, servers...)
	for range 100 {
		require.NoError(t, c.call(t.Context()))
	}
	servers[0].delay.Store(int64(3 * time.Second))
	servers[1].delay.Store(int64(3 * time.Second))
	late := &overdue{told: make(chan struct{}, 2)}
	start := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.call(balancer.WithAttempt(context.Background(), &balancer.Attempt{Observer: late}))
	}()
	<-late.told
	assert.Less(t, time.Since(start), 2*time.Second)
	<-done
	assert.Empty(t, late.told, "told once")
}

type overdue struct {
	recorder
	told chan struct{}
}

func (o *overdue) Overdue() { o.told <- struct{}{} }

// A server that ends gracefully lets streams go on, which should leave it nevertheless.
func TestStreamLeavesAServerThatIsLeaving(t *testing.T) {
	servers := []*server{startServer(t), startServer(t)}
	c := connect(t, roundRobin, servers...)
	c.meetAll(t, servers...)
	picked := &recorder{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx = balancer.WithAttempt(ctx, &balancer.Attempt{Lane: balancer.Streams, Observer: picked})
	stream, err := pb.NewTestServiceClient(c.ClientConn).StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	told := make(chan error, 1)
	flow := picked.endpoint().OpenFlow(balancer.Streams, func(reason error) {
		told <- reason
		cancel()
	})
	defer flow.Close()
	serverAt(servers, picked.endpoint()).grpc.GracefulStop() // returns when the stream has ended
	assert.Equal(t, codes.Unavailable, status.Code(<-told))
}
