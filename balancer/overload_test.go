package balancer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// All endpoints answer long after the callers' deadlines.
func TestOverloadEjectsNoEndpoint(t *testing.T) {
	tests := map[string]struct {
		delays  [3]time.Duration
		callers int
		write   bool
	}{
		"reads":            {[3]time.Duration{1250 * time.Millisecond, 1250 * time.Millisecond, 1250 * time.Millisecond}, 4, false},
		"writes":           {[3]time.Duration{1250 * time.Millisecond, 1250 * time.Millisecond, 1250 * time.Millisecond}, 4, true},
		"many reads":       {[3]time.Duration{1250 * time.Millisecond, 1250 * time.Millisecond, 1250 * time.Millisecond}, 20, false},
		"slightly":         {[3]time.Duration{400 * time.Millisecond, 400 * time.Millisecond, 400 * time.Millisecond}, 4, false},
		"to some extent":   {[3]time.Duration{800 * time.Millisecond, 1250 * time.Millisecond, 1700 * time.Millisecond}, 4, false},
		"beyond a probe's": {[3]time.Duration{5 * time.Second, 5 * time.Second, 5 * time.Second}, 4, true},
	}
	for name, tt := range tests {
		subtest(t, name, 3, func(t *testing.T, servers []*server) {
			c := warm(t, roundRobin, servers)
			load := c.load(tt.callers, 500*time.Millisecond, 250*time.Millisecond, tt.write)
			time.Sleep(10 * time.Second)
			before := c.probes.Load()
			for i, s := range servers {
				s.delay.Store(int64(tt.delays[i]))
			}
			time.Sleep(10 * time.Second)
			burst := c.probes.Load()
			assert.LessOrEqual(t, burst-before, int64(4+1+10/4+10*tt.callers/20), "the reserve is kept")
			time.Sleep(50 * time.Second)
			assert.LessOrEqual(t, c.probes.Load()-burst, int64(50/4+1+50*2*tt.callers/50), "0.25 per second, and 2 % of the calls")
			assert.False(t, c.events.ever(health.Lagging, health.Dead))
			each(servers, func(s *server) { s.delay.Store(int64(usual)) })
			within(t, 2*time.Second, "serving again", func() bool { return allServe(c, servers) })
			load.end()
			assert.False(t, c.events.ever(health.Lagging, health.Dead))
			assert.Empty(t, c.events.closedAddresses())
			for _, s := range servers {
				assert.EqualValues(t, 1, s.conns.Load())
			}
		})
	}
}

// allServe reports whether all endpoints are Serving.
func allServe(c *client, servers []*server) bool {
	return !slices.ContainsFunc(servers, func(s *server) bool { return c.is(s) != health.Serving })
}

// A fault is detected although the probes of an overload preceded it.
func TestFaultAfterAnOverloadIsDetected(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		c.load(4, 500*time.Millisecond, 250*time.Millisecond, false)
		each(servers, func(s *server) { s.delay.Store(int64(1250 * time.Millisecond)) })
		time.Sleep(time.Minute)
		each(servers, func(s *server) { s.delay.Store(int64(usual)) })
		time.Sleep(10 * time.Second)
		servers[0].frozen.Shut()
		o := <-c.starting(1, servers[0], aWrite)
		assert.Error(t, o.cut)
		assert.Less(t, o.took, 1500*time.Millisecond)
		assert.Equal(t, health.Dead, c.is(servers[0]))
	})
}

func TestSilenceIsIgnoredIfDisabled(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c := warm(t, roundRobin, servers, unprobed, func(o *balancer.Options) { o.DisableSuspicion = true })
		s := c.open(balancer.Streams, c.endpoint(servers[0]))
		time.Sleep(2 * time.Second)
		servers[0].frozen.Shut()
		call := c.starting(1, servers[0], aWrite)
		time.Sleep(time.Minute)
		assert.Empty(t, call)
		assert.True(t, s.isOpen())
		assert.False(t, c.events.ever(health.Suspected))
		servers[0].frozen.Open()
		assert.NoError(t, (<-call).err)
	})
}
