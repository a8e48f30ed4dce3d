package balancer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

func TestCallsAreCutOnADegradedEndpointOnceAnotherServes(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		s := servers[0]
		// No endpoint has a leader, and calls hang.
		each(servers, func(s *server) { s.fail.Store(&errNoLeader) })
		hanging := attempt{write: true, takes: time.Hour}
		writes := c.starting(3, s, hanging)
		hanging.write = false
		reads := c.starting(3, s, hanging)
		hanging.need = balancer.Local
		local := c.starting(1, s, hanging)
		for _, s := range servers {
			require.ErrorIs(t, (<-c.starting(1, s, aRead)).err, errNoLeader)
		}
		time.Sleep(20 * time.Second)
		assert.Empty(t, writes, "no endpoint serves")
		assert.Empty(t, reads, "no endpoint serves")
		for _, s := range servers {
			assert.Equal(t, health.Degraded, c.is(s))
		}

		each(servers[1:], func(s *server) { s.fail.Store(nil) })
		c.load(1, 20*time.Millisecond, time.Second, false)
		elected := time.Now()
		for range 3 {
			assert.ErrorContains(t, (<-writes).cut, "endpoint a is degraded")
			assert.ErrorContains(t, (<-reads).cut, "others serve")
		}
		assert.Less(t, time.Since(elected), 100*time.Millisecond)
		assert.Empty(t, local, "it can serve local reads")
		assert.Empty(t, c.events.closedAddresses())

		s.fail.Store(nil)
		within(t, 11*time.Second, "readmitted", func() bool { return c.is(s) == health.Serving })
		assert.False(t, c.events.ever(health.Lagging, health.Dead))
		assert.Empty(t, local)
	})
}

func TestTrafficNeedsNoProbes(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		c.reads(300)
		each(servers, func(s *server) {
			assert.Equal(t, health.Serving, c.is(s))
			assert.EqualValues(t, 1, s.conns.Load(), "connections")
		})
		assert.Zero(t, c.probes.Load(), "traffic is a sign of life")
	})
}

func TestDegradedClusterIsProbedSeldom(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		each(servers, func(s *server) { s.fail.Store(&errNoLeader) })
		c.load(1, time.Second, time.Second, true)
		time.Sleep(time.Minute)
		before := c.probes.Load()
		time.Sleep(10 * time.Minute)
		assert.LessOrEqual(t, c.probes.Load()-before, int64(300), "at most half a probe per second")
		assert.Empty(t, c.events.closedAddresses())
		each(servers, func(s *server) { s.fail.Store(nil) })
		within(t, 2*time.Second, "calls are served", func() bool { return c.write().err == nil })
		// The three share a budget of a probe in four seconds, of which six are kept for another fault.
		within(t, 40*time.Second, "all serve", func() bool { return allServe(c, servers) })
	})
}

func TestSlowEndpointServesNoCallsWhileOthersAreFast(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		l := c.load(4, 400*time.Millisecond, 10*time.Second, false)
		slow := servers[0]
		slow.delay.Store(int64(200 * time.Millisecond))
		within(t, 2*time.Second, "slow", func() bool { return c.is(slow) == health.Slow })
		time.Sleep(time.Second)
		calls, before := slow.calls.Load(), c.probes.Load()
		time.Sleep(3 * time.Minute)
		assert.Equal(t, health.Slow, c.is(slow))
		assert.LessOrEqual(t, c.probes.Load()-before, int64(30), "it is probed seldom")
		assert.Equal(t, calls, slow.calls.Load())
		slow.delay.Store(int64(usual))
		within(t, 32*time.Second, "serving", func() bool { return c.is(slow) == health.Serving })
		assert.Zero(t, failed(l.end()))
		assert.False(t, c.events.ever(health.Lagging, health.Dead))
		assert.Empty(t, c.events.closedAddresses())
	})
}

// Without a prober, other endpoints are preferred while one is silent.
func TestSilenceIsASuspicionWithoutAProber(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c := warm(t, roundRobin, servers, unprobed)
		l := c.load(2, 100*time.Millisecond, time.Hour, false)
		s := servers[0]
		s.frozen.Shut()
		stuck := c.starting(1, s, aWrite)
		within(t, time.Second, "suspected", func() bool { return c.is(s) == health.Suspected })
		synctest.Wait() // the picker follows the state
		for range 20 {
			o := c.read()
			require.NoError(t, o.err)
			assert.Equal(t, "b", o.at.Address())
		}
		time.Sleep(time.Minute)
		assert.Equal(t, health.Suspected, c.is(s))
		s.frozen.Open()
		require.NoError(t, (<-stuck).err)
		time.Sleep(time.Millisecond)
		assert.Equal(t, health.Serving, c.is(s))
		assert.Zero(t, failed(l.end()))
		assert.False(t, c.events.ever(health.Lagging, health.Dead))
		assert.Empty(t, c.events.closedAddresses())
		assert.Zero(t, c.probes.Load())
	})
}

func TestLongCallIsNotCut(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		c.load(2, 200*time.Millisecond, time.Second, false)
		before := c.probes.Load()
		for range 4 {
			o := <-c.starting(1, servers[0], attempt{takes: 20 * time.Second})
			require.NoError(t, o.err)
			assert.EqualValues(t, 1, o.overdue, "overdue once")
		}
		assert.LessOrEqual(t, c.probes.Load()-before, int64(8))
		assert.False(t, c.events.ever(health.Slow, health.Lagging, health.Dead))
	})
}
