package balancer_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/health"
)

// lossy makes the server answer a share of its calls 200 ms later, as after a lost packet, until stop is called.
func lossy(s *server, share float64) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			s.delay.Store(int64(usual))
			if rand.Float64() < share {
				s.delay.Store(int64(200*time.Millisecond + usual))
			}
			select {
			case <-done:
				s.delay.Store(int64(usual))
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() { close(done) }
}

func TestEndpointThatLosesPacketsIsSlow(t *testing.T) {
	for _, callers := range []int{1, 6, 30} {
		inBubble(t, 3, func(t *testing.T, servers []*server) {
			c := warm(t, roundRobin, servers)
			load := c.load(callers, 5*time.Millisecond, time.Hour, false)
			time.Sleep(2 * time.Second)
			stop := lossy(servers[0], 0.36)
			within(t, 20*time.Second, "slow", func() bool { return c.is(servers[0]) == health.Slow })
			before := servers[0].calls.Load()
			time.Sleep(10 * time.Second)
			during := servers[0].calls.Load() - before
			assert.Less(t, during, (servers[1].calls.Load()+servers[2].calls.Load())/4, "few calls meet it")
			stop()
			within(t, time.Minute, "serving", func() bool { return c.is(servers[0]) == health.Serving })
			load.end()
			assert.False(t, c.events.ever(health.Lagging, health.Dead))
		})
	}
}

// A member that is far away, one that pauses, and one whose neighbours are as slow are no outliers.
func TestEndpointThatIsAlwaysOrSeldomLateServes(t *testing.T) {
	far := map[string]int64{"far": int64(150 * time.Millisecond)}
	for name, test := range map[string]func(servers []*server) (stop func()){
		"far": func([]*server) func() { return func() {} },
		"all lose packets": func(servers []*server) func() {
			var stops []func()
			for _, s := range servers {
				stops = append(stops, lossy(s, 0.36))
			}
			return func() {
				for _, stop := range stops {
					stop()
				}
			}
		},
		"some calls are long": func(servers []*server) func() { return lossy(servers[0], 0.05) },
		"it pauses": func(servers []*server) func() {
			var ended atomic.Bool
			go func() {
				for !ended.Load() {
					servers[0].frozen.Shut()
					time.Sleep(250 * time.Millisecond)
					servers[0].frozen.Open()
					time.Sleep(3 * time.Second)
				}
			}()
			return func() { ended.Store(true); time.Sleep(4 * time.Second) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, servers []*server) {
				servers[0].delay.Store(max(far[name], int64(usual)))
				c := warm(t, roundRobin, servers)
				load := c.load(9, 5*time.Millisecond, time.Hour, false)
				time.Sleep(2 * time.Second)
				stop := test(servers)
				time.Sleep(30 * time.Second)
				load.end()
				stop()
				assert.False(t, c.events.ever(health.Slow), "%v", c.is(servers[0]))
			})
		})
	}
}
