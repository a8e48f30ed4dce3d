package balancer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/pause"
)

func TestAttemptMayBeSent(t *testing.T) {
	ep := balancer.Detached("a", nil, nil)
	a := new(balancer.Attempt)
	assert.True(t, a.MaySent(), "not picked yet")
	a.NotPicked()
	assert.False(t, a.MaySent())
	assert.Nil(t, a.Endpoint())
	require.NoError(t, a.Picked(ep))
	assert.True(t, a.MaySent(), "while it is not known how that ends")
	assert.Same(t, ep, a.Endpoint())
	a.Ended(false)
	assert.False(t, a.MaySent(), "nothing was sent")
	require.NoError(t, a.Picked(ep))
	a.Ended(true)
	assert.True(t, a.MaySent())
	require.NoError(t, a.Picked(ep))
	a.Ended(false)
	assert.True(t, a.MaySent(), "an earlier pick was sent")
}

func TestAttemptThatIsOverIsNotPicked(t *testing.T) {
	ep := balancer.Detached("a", nil, nil)
	a := new(balancer.Attempt)
	a.End()
	err := a.Picked(ep)
	assert.Equal(t, codes.Canceled, status.Code(err))
	a.Ended(false)
	assert.False(t, a.MaySent())
}

func TestPinnedAttemptIsNotPickedAgain(t *testing.T) {
	ep := balancer.Detached("a", nil, nil)
	var cut error
	a := &balancer.Attempt{Watcher: &watcher{cancel: func(cause error) { cut = cause }}}
	a.NotPicked()
	require.NoError(t, a.Picked(ep))
	assert.NoError(t, cut)
	a.Pin()
	assert.Equal(t, codes.Unavailable, status.Code(a.Picked(ep)))
	a.NotPicked()
	assert.Equal(t, codes.Unavailable, status.Code(cut), "it must not wait for another endpoint")
}

func TestAttemptRecordsItsCall(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		client := pb.NewTestServiceClient(c.ClientConn)
		call := func(ctx context.Context, a *balancer.Attempt) error {
			_, err := client.EmptyCall(balancer.WithAttempt(ctx, a), &pb.Empty{}, grpc.WaitForReady(true))
			return err
		}
		a := new(balancer.Attempt)
		require.NoError(t, call(t.Context(), a))
		assert.True(t, a.MaySent())
		assert.True(t, a.Answered())
		assert.NotNil(t, a.Endpoint())

		refusal := status.Error(codes.NotFound, "no attempt in the context")
		servers[0].fail.Store(&refusal)
		a = &balancer.Attempt{Avoid: c.others(c.endpoint(servers[0]))}
		require.ErrorIs(t, call(t.Context(), a), refusal)
		assert.True(t, a.Answered(), "an error is an answer")

		servers[0].stalled.Shut()
		a = &balancer.Attempt{Avoid: c.others(c.endpoint(servers[0]))}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		require.Error(t, call(ctx, a))
		assert.True(t, a.MaySent())
		assert.False(t, a.Answered())

		a = &balancer.Attempt{Avoid: c.monitor.Endpoints(), AvoidStrictly: true}
		assert.Equal(t, codes.Canceled, status.Code(call(t.Context(), a)))
		assert.False(t, a.MaySent())
		assert.Nil(t, a.Endpoint())

		a = new(balancer.Attempt)
		a.End()
		assert.Equal(t, codes.Canceled, status.Code(call(t.Context(), a)))
		assert.False(t, a.MaySent())
	})
}

func TestOverdueIsCalledWhenAnotherCanServe(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		servers[0].stalled.Shut()
		w := c.watched(servers[0], func(error) {})
		time.Sleep(19 * time.Millisecond)
		assert.Zero(t, w.overdue.Load())
		time.Sleep(6 * time.Millisecond)
		assert.EqualValues(t, 1, w.overdue.Load())
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, w.overdue.Load(), "once")
		servers[0].stalled.Open()
	})
	withClient(t, 1, func(t *testing.T, c *client, servers []*server) {
		o := c.call(t.Context(), attempt{takes: time.Minute})
		assert.Zero(t, o.overdue, "no other endpoint can serve")
	})
}

func TestStreamThatNoPolicyPickedIsIgnored(t *testing.T) {
	a := &balancer.Attempt{Stream: true}
	require.NoError(t, a.Picked(balancer.Detached("a", nil, nil)))
	a.Heard()
	assert.False(t, a.Quiet())
}

func TestMonitorNotifiesImprovements(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		each(servers, func(s *server) { s.blackhole.Shut() })
		c := connect(t, roundRobin, servers)
		improved := c.monitor.Improved()
		c.Connect()
		time.Sleep(time.Second)
		assert.Same(t, c.monitor, c.options.Monitor)
		assert.Len(t, c.monitor.Endpoints(), 2)
		assert.False(t, pause.Closed(improved))
		servers[0].blackhole.Open()
		time.Sleep(time.Millisecond)
		assert.True(t, pause.Closed(improved), "it is connected")
		improved = c.monitor.Improved()
		servers[1].blackhole.Open()
		time.Sleep(time.Millisecond)
		assert.True(t, pause.Closed(improved), "so is the other")

		for _, s := range servers {
			require.NoError(t, c.call(t.Context(), attempt{only: c.endpoint(s)}).err)
		}
		improved = c.monitor.Improved()
		servers[0].fail.Store(&errNoLeader)
		require.ErrorIs(t, c.call(t.Context(), attempt{only: c.endpoint(servers[0])}).err, errNoLeader)
		time.Sleep(time.Minute)
		require.Equal(t, health.Degraded, c.is(servers[0]))
		assert.False(t, pause.Closed(improved))
		servers[0].fail.Store(nil)
		time.Sleep(15 * time.Second) // a pause of 4 s, for which the budget refuses a probe, and one of 10 s
		assert.True(t, pause.Closed(improved), "it serves again")

		improved = c.monitor.Improved()
		c.monitor.NotifyImproved()
		assert.True(t, pause.Closed(improved), "its owner reports it")
		require.NoError(t, c.Close())
		assert.Empty(t, c.monitor.Endpoints())
		_, _, probes := c.monitor.ProbeBudget()
		assert.EqualValues(t, c.probes.Load(), probes, "the count does not fall when a policy is closed")
	})
}

// After an outage of all, no call is overdue for as long as it has lasted, 10 s at most; one that waits then is overdue.
func TestNoCallIsOverdueAfterAnOutage(t *testing.T) {
	for _, outage := range []time.Duration{5 * time.Second, time.Minute} {
		withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
			each(servers, (*server).kill)
			began := time.Now()
			time.Sleep(outage)
			each(servers, (*server).restart)
			var ended time.Time
			within(t, 30*time.Second, "connected", func() bool {
				ended = time.Now()
				return c.endpoint(servers[0]).Ready() || c.endpoint(servers[1]).Ready()
			})
			within(t, 30*time.Second, "all serve", func() bool {
				_ = c.call(t.Context(), aRead)
				return c.is(servers[0]) == health.Serving && c.is(servers[1]) == health.Serving
			})
			servers[0].stalled.Shut()
			w := c.watched(servers[0], func(error) {})
			within(t, 11*time.Second, "overdue", func() bool { return w.overdue.Load() == 1 })
			assert.InDelta(t, min(ended.Sub(began), 10*time.Second), time.Since(ended), float64(100*time.Millisecond))
			servers[0].stalled.Open()
		})
	}
}
