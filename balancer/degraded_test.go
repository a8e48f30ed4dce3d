package balancer_test

import (
	"testing"
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
