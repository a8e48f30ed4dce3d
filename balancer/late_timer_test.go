package balancer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// The reply that a starved process waits for may have arrived unread.
func TestLateTimerIsIgnored(t *testing.T) {
	for name, open := range map[string]func(*client, *server){
		"calls":   func(c *client, s *server) { c.starting(3, s, aWrite) },
		"streams": func(c *client, s *server) { c.open(balancer.Streams, c.endpoint(s)) },
	} {
		subtest(t, name, 2, func(t *testing.T, servers []*server) {
			c := warm(t, roundRobin, servers)
			open(c, servers[0])
			time.Sleep(usual / 2)
			if name == "streams" {
				time.Sleep(2 * time.Second)
			}
			servers[0].frozen.Shut()
			ep := c.endpoint(servers[0])
			ep.HoldTimer()
			time.Sleep(time.Second)
			probes := c.probes.Load()
			ep.CheckLate(51 * time.Millisecond)
			time.Sleep(4 * time.Millisecond)
			assert.Equal(t, health.Serving, c.is(servers[0]))
			assert.Equal(t, probes, c.probes.Load())
			time.Sleep(300 * time.Millisecond)
			assert.Equal(t, health.Suspected, c.is(servers[0]), "soon it is checked again")
		})
	}
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		c.starting(3, servers[0], aWrite)
		time.Sleep(usual / 2)
		servers[0].frozen.Shut()
		c.endpoint(servers[0]).HoldTimer()
		time.Sleep(time.Second)
		require.Equal(t, health.Serving, c.is(servers[0]))
		c.endpoint(servers[0]).CheckLate(50 * time.Millisecond)
		assert.Equal(t, health.Suspected, c.is(servers[0]), "a timer may be a little late")
	})
}

// A starved process evaluates no round of probes that took too long, and waits for the answers anew.
func TestLateRoundIsIgnored(t *testing.T) {
	for late, want := range map[time.Duration]health.State{
		51 * time.Millisecond: health.Serving,
		50 * time.Millisecond: health.Dead,
	} {
		subtest(t, late.String(), 2, func(t *testing.T, servers []*server) {
			c := warm(t, roundRobin, servers)
			c.starting(1, servers[0], aWrite)
			time.Sleep(usual / 2)
			servers[0].frozen.Shut()
			ep := c.endpoint(servers[0])
			ep.HoldTimer()
			c.starting(1, servers[1], attempt{takes: 100 * time.Millisecond})
			ep.Investigate(late)
			assert.Equal(t, want, c.is(servers[0]))
		})
	}
}
