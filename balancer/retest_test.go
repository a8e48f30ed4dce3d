package balancer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// One pause does not leave an endpoint without calls, whatever its health service says afterwards.
func TestEndpointThatPausedOnceGetsItsShareAgain(t *testing.T) {
	unauthenticated := status.Error(codes.Unauthenticated, "no token")
	unavailable := status.Error(codes.Unavailable, "the database is away")
	for name, test := range map[string]struct {
		prepare func(*server)
		within  time.Duration
	}{
		"health serves":          {func(*server) {}, 2 * time.Second},
		"health refuses":         {func(s *server) { s.refuse.Store(&unauthenticated) }, 2 * time.Second},
		"health fails":           {func(s *server) { s.refuse.Store(&unavailable) }, 10 * time.Second},
		"health answers nothing": {func(s *server) { s.unresponsive.Shut() }, 10 * time.Second},
	} {
		for _, config := range []string{probedRoundRobin, `{"quorate_p2c":{"healthProbe":{}}}`} {
			for _, pause := range []string{"frozen", "late"} {
				subtest(t, name+" "+pause+config, 3, func(t *testing.T, servers []*server) {
					for _, s := range servers {
						test.prepare(s)
					}
					c := warm(t, config, servers, toolkit)
					c.load(6, 100*time.Millisecond, 3*time.Second, false)
					time.Sleep(2 * time.Second)
					if pause == "frozen" {
						servers[0].frozen.Shut()
						time.AfterFunc(time.Second, servers[0].frozen.Open)
					} else {
						servers[0].long.Store(int64(time.Second))
						time.AfterFunc(time.Second, func() { servers[0].long.Store(0) })
					}
					time.Sleep(time.Second + test.within)
					shares := c.shares(4 * time.Second)
					assert.GreaterOrEqual(t, shares[0], 0.25, "%v", shares)
				})
			}
		}
	}
}

// Calls that may change something, and those of a client whose errors are classified, test nothing.
func TestCallsThatTestNothing(t *testing.T) {
	for name, test := range map[string]struct {
		write   bool
		options func(*balancer.Options)
	}{
		"writes":                {true, toolkit},
		"errors are classified": {false, func(*balancer.Options) {}},
	} {
		subtest(t, name, 3, func(t *testing.T, servers []*server) {
			c := warm(t, probedRoundRobin, servers, test.options)
			servers[0].unresponsive.Shut()
			servers[0].stalled.Shut()
			c.load(3, 60*time.Millisecond, 10*time.Second, test.write)
			within(t, time.Second, "ejected", func() bool { return !c.is(servers[0]).Usable() })
			time.Sleep(3 * time.Second)
			assert.Zero(t, servers[0].callsIn(20*time.Second))
		})
	}
}

// While an endpoint stays bad, calls test it less and less often.
func TestEndpointThatStaysBadIsTestedSeldom(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, servers []*server) {
		c := warm(t, probedRoundRobin, servers, toolkit)
		servers[0].fail.Store(&errUnavailable)
		load := c.load(4, 200*time.Millisecond, time.Second, false)
		within(t, 5*time.Second, "suspected", func() bool { return c.is(servers[0]) == health.Suspected })
		load.end()
		c.load(2, time.Second, time.Second, false)
		before := servers[0].calls.Load()
		time.Sleep(5 * time.Minute)
		tests := servers[0].calls.Load() - before
		assert.Greater(t, tests, int64(8))
		assert.Less(t, tests, int64(24))
		assert.Equal(t, health.Suspected, c.is(servers[0]))
	})
}
