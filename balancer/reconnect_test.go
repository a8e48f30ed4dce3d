package balancer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func TestLostConnectionsComeBackSpreadWhileOthersServe(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		s := servers[0]
		var clients []*client
		for range 40 {
			clients = append(clients, warm(t, roundRobin, servers))
		}
		s.disconnect()
		before := s.dials.Load()
		var at []int64
		for range 200 {
			time.Sleep(time.Millisecond)
			at = append(at, s.dials.Load()-before)
		}
		assert.EqualValues(t, 40, at[199], "all have reconnected")
		assert.InDelta(t, 20, at[99], 18)
		assert.Less(t, at[9], int64(20))
		time.Sleep(10 * time.Millisecond)
		for _, c := range clients {
			assert.True(t, c.endpoint(s).Ready())
			assert.NoError(t, c.call(t.Context(), attempt{only: c.endpoint(s)}).err)
		}
	})
}

func TestConnectionComesBackAtOnceIfThereIsNoOther(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, servers []*server) {
		c := warm(t, roundRobin, servers)
		servers[0].disconnect()
		synctest.Wait()
		o := c.read()
		require.NoError(t, o.err)
		assert.Equal(t, usual, o.took)
	})
}

func TestOutageEndsWithinThreeSeconds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := warm(t, roundRobin, servers)
		for _, s := range servers {
			s.kill()
		}
		time.Sleep(20 * time.Second)
		for _, s := range servers {
			assert.Equal(t, health.Dead, c.is(s))
			dials := s.dials.Load()
			assert.GreaterOrEqual(t, dials, int64(1+20/3), "gRPC's backoff does not delay them")
			assert.LessOrEqual(t, dials, int64(60), "few attempts")
		}
		servers[2].restart()
		o := c.read()
		require.NoError(t, o.err)
		assert.LessOrEqual(t, o.took, 3*time.Second+usual)
		assert.Equal(t, "c", o.at.Address())
		assert.Equal(t, health.Serving, c.is(servers[2]))
	})
}

func TestLongOutageUsesTheBackoff(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, servers []*server) {
		c := warm(t, roundRobin, servers)
		servers[0].kill()
		time.Sleep(10 * time.Minute)
		before := servers[0].dials.Load()
		time.Sleep(10 * time.Minute)
		assert.LessOrEqual(t, servers[0].dials.Load()-before, int64(13), "once a minute")
		servers[0].restart()
		assert.NoError(t, c.read().err)
	})
}

// While an endpoint is connected, others use gRPC's backoff until one of them reconnects.
func TestReconnectEndsTheBackoffOfOthers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := warm(t, roundRobin, servers)
		servers[0].kill()
		servers[1].kill()
		time.Sleep(10 * time.Minute)
		before := servers[0].dials.Load()
		time.Sleep(5 * time.Minute)
		assert.LessOrEqual(t, servers[0].dials.Load()-before, int64(7))
		servers[0].restart()
		servers[1].restart()
		within(t, 125*time.Second, "one", func() bool { return c.endpoint(servers[0]).Ready() || c.endpoint(servers[1]).Ready() })
		within(t, 210*time.Millisecond, "both", func() bool { return c.endpoint(servers[0]).Ready() && c.endpoint(servers[1]).Ready() })
	})
}

func TestRestartedEndpointServesAfterAProbe(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c := warm(t, roundRobin, servers)
		c.load(2, 20*time.Millisecond, time.Second, true)
		s := servers[0]
		s.kill()
		time.Sleep(5 * time.Second)
		assert.Equal(t, health.Dead, c.is(s))
		assert.True(t, c.endpoint(s).Unreachable())
		s.stalled.Shut() // it accepts connections before it serves
		s.restart()
		within(t, 10*time.Second, "connected", func() bool { return c.endpoint(s).Ready() })
		calls := s.calls.Load()
		time.Sleep(5 * time.Second)
		assert.NotEqual(t, health.Serving, c.is(s))
		assert.Equal(t, calls, s.calls.Load(), "it gets no calls")
		s.stalled.Open()
		within(t, 11*time.Second, "serving", func() bool { return c.is(s) == health.Serving })
	})
}

func TestCallsWaitForAConnection(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, servers []*server) {
		servers[0].kill()
		c := connect(t, roundRobin, servers)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, ctxErr(ctx, c.call(ctx, aRead).err), context.DeadlineExceeded)
		servers[0].restart()
		o := c.read()
		assert.NoError(t, o.err)
		assert.LessOrEqual(t, o.took, 3*time.Second+usual)
	})
}

// ctxErr returns the context's error for a call that failed.
func ctxErr(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return ctx.Err()
}
