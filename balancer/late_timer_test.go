package balancer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// A late timer checks no stream, and checks again soon.
func TestLateTimerChecksNoStream(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		ep := c.endpoint(servers[0])
		c.open(balancer.Streams, ep)
		time.Sleep(2 * time.Second)
		servers[0].frozen.Shut()
		ep.HoldTimer()
		time.Sleep(time.Second)
		probes := c.probes.Load()
		ep.CheckLate(51 * time.Millisecond)
		time.Sleep(4 * time.Millisecond)
		assert.Equal(t, probes, c.probes.Load())
		time.Sleep(300 * time.Millisecond)
		assert.Equal(t, health.Suspected, ep.State())
	})
}

// A starved process acts on nothing that it finds too late.
func TestWhatIsFoundLateIsIgnored(t *testing.T) {
	for name, tt := range map[string]struct {
		find  func(*balancer.Endpoint, time.Duration)
		again bool // it is found 50 ms later
	}{
		"a call without an answer":  {(*balancer.Endpoint).CheckLate, true},
		"a round of probes":         {(*balancer.Endpoint).Investigate, false},
		"a silent connection":       {(*balancer.Endpoint).CheckConn, false},
		"a silent stream":           {(*balancer.Endpoint).AwaitStream, false},
		"a connection to be closed": {(*balancer.Endpoint).CloseUnheard, true},
		"an overtaken write":        {(*balancer.Endpoint).CutOvertaken, true},
	} {
		for late, found := range map[time.Duration]bool{50 * time.Millisecond: true, 51 * time.Millisecond: false} {
			subtest(t, name+", after "+late.String(), 2, func(t *testing.T, servers []*server) {
				c := warm(t, roundRobin, servers)
				call := c.starting(1, servers[0], attempt{prompt: true})
				time.Sleep(usual / 2)
				servers[0].frozen.Shut()
				ep := c.endpoint(servers[0])
				ep.HoldTimer()
				time.Sleep(time.Second)
				c.starting(1, servers[1], attempt{takes: 100 * time.Millisecond})
				tt.find(ep, late)
				synctest.Wait()
				isFound := func() bool { return ep.State() != health.Serving || len(call) == 1 }
				assert.Equal(t, found, isFound())
				time.Sleep(50 * time.Millisecond)
				synctest.Wait()
				assert.Equal(t, found || tt.again, isFound())
			})
		}
	}
}
