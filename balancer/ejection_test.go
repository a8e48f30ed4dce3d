package balancer_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/pause"
)

// lossy makes the server answer a share of its calls 200 ms later, as after a lost packet, until the end of the test or
// until stop is called.
func lossy(t *testing.T, s *server, share float64) (stop func()) {
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		for pause.For(ctx, 5*time.Millisecond) == nil {
			s.delay.Store(int64(usual))
			if rand.Float64() < share {
				s.delay.Store(int64(200*time.Millisecond + usual))
			}
		}
		s.delay.Store(int64(usual))
	}()
	return stop
}

func TestSimulatedEndpointThatLosesPacketsIsSlow(t *testing.T) {
	for _, callers := range []int{1, 12} {
		withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
			load := c.load(callers, time.Duration(callers)*12*time.Millisecond, time.Hour, false)
			time.Sleep(2 * time.Second)
			stop := lossy(t, servers[0], 0.36)
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

// A member that is far away, one that pauses, and one whose neighbours are as slow are no outliers.
func TestSimulatedEndpointThatIsAlwaysOrSeldomLateServes(t *testing.T) {
	for name, tt := range map[string]struct {
		always bool // before the client has learnt how long calls take
		begin  func(t *testing.T, servers []*server)
	}{
		"far": {true, func(_ *testing.T, servers []*server) { servers[0].delay.Store(int64(150 * time.Millisecond)) }},
		"all lose packets": {true, func(t *testing.T, servers []*server) {
			each(servers, func(s *server) { lossy(t, s, 0.5) }) // so many that their mean latency is never low by chance
		}},
		"some calls are long": {false, func(t *testing.T, servers []*server) { lossy(t, servers[0], 0.05) }},
		"it pauses": {false, func(t *testing.T, servers []*server) {
			go func() {
				for ctx := t.Context(); ctx.Err() == nil; _ = pause.For(ctx, 3*time.Second) {
					servers[0].frozen.Shut()
					_ = pause.For(ctx, 250*time.Millisecond)
					servers[0].frozen.Open()
				}
			}()
		}},
	} {
		subtest(t, name, 3, func(t *testing.T, servers []*server) {
			if tt.always {
				tt.begin(t, servers)
			}
			c := warm(t, roundRobin, servers)
			load := c.load(9, 80*time.Millisecond, time.Hour, false)
			time.Sleep(2 * time.Second)
			if !tt.always {
				tt.begin(t, servers)
			}
			time.Sleep(20 * time.Second)
			load.end()
			assert.False(t, c.events.ever(health.Slow), "%v", c.is(servers[0]))
		})
	}
}

const probedRoundRobin = `{"quorate_round_robin":{"healthProbe":{}}}`

var errUnavailable = status.Error(codes.Unavailable, "no database")

// One of five endpoints fails each call, or takes twenty times as long. Its health service says that it serves.
func TestSimulatedEndpointThatFailsOrIsSlowGetsFewCalls(t *testing.T) {
	for name, test := range map[string]struct {
		config string
		worsen func(s *server)
		failed int // calls, at most
	}{
		"fails":               {probedRoundRobin, func(s *server) { s.fail.Store(&errUnavailable) }, 30},
		"fails, not probed":   {roundRobin, func(s *server) { s.fail.Store(&errUnavailable) }, 30},
		"fails half":          {probedRoundRobin, func(s *server) { s.fail.Store(&errUnavailable); s.passes.Store(50) }, 100},
		"hangs":               {probedRoundRobin, func(s *server) { s.long.Store(int64(time.Hour)) }, 120},
		"is slow":             {probedRoundRobin, func(s *server) { s.long.Store(int64(95 * time.Millisecond)) }, 0},
		"is slow, not probed": {roundRobin, func(s *server) { s.long.Store(int64(38 * time.Millisecond)) }, 0},
	} {
		subtest(t, name, 5, func(t *testing.T, servers []*server) {
			c := warm(t, test.config, servers, toolkit)
			warmup := c.load(4, 20*time.Millisecond, 2*time.Second, false)
			time.Sleep(2 * time.Second)
			assert.Zero(t, failed(warmup.end()))
			s := servers[0]
			test.worsen(s)
			l := c.load(12, 20*time.Millisecond, 200*time.Millisecond, false)
			time.Sleep(4 * time.Second)
			outcomes := l.end()
			t.Logf("%d calls, %d failed, %d late", len(outcomes), failed(outcomes), late(outcomes))
			assert.LessOrEqual(t, failed(outcomes), test.failed)
			assert.LessOrEqual(t, late(outcomes), 45)

			s.fail.Store(nil)
			s.long.Store(0)
			c.load(1, 40*time.Millisecond, time.Second, false)
			within(t, time.Minute, "serving", func() bool { return c.is(s) == health.Serving })
			c.load(4, 40*time.Millisecond, time.Second, false)
			assert.InDelta(t, 0.2, c.shares(2 * time.Second)[0], 0.02, "it has its share again")
		})
	}
}

// late returns how many calls succeeded after more than 25 ms.
func late(outcomes []outcome) int {
	return count(outcomes, func(o outcome) bool { return o.err == nil && o.took > 25*time.Millisecond })
}

// Where no endpoint is worse than others, or calls are at fault, or errors say how a server is, none is ejected.
func TestSimulatedErrorsThatEjectNoEndpoint(t *testing.T) {
	missing, canceled := status.Error(codes.NotFound, "no such thing"), status.Error(codes.Canceled, "never mind")
	for name, test := range map[string]struct {
		failing int // servers
		err     error
		passes  int64
		options func(*balancer.Options)
		config  string
	}{
		"all fail":                 {5, errUnavailable, 0, toolkit, probedRoundRobin},
		"all fail at times":        {5, errUnavailable, 70, toolkit, probedRoundRobin},
		"the caller is wrong":      {1, missing, 0, toolkit, probedRoundRobin},
		"the server cancels":       {1, canceled, 0, toolkit, probedRoundRobin},
		"some fail, as they may":   {1, errUnavailable, 90, toolkit, probedRoundRobin},
		"errors are classified":    {1, errUnavailable, 0, func(*balancer.Options) {}, roundRobin},
		"it is switched off":       {1, errUnavailable, 0, toolkit, `{"quorate_round_robin":{"outlierDetection":{"maxEjectionPercent":0}}}`},
		"no other endpoint serves": {4, errUnavailable, 0, toolkit, probedRoundRobin},
	} {
		subtest(t, name, 5, func(t *testing.T, servers []*server) {
			c := warm(t, test.config, servers, test.options)
			for _, s := range servers[:test.failing] {
				s.passes.Store(test.passes)
				s.fail.Store(&test.err)
			}
			l := c.load(10, 160*time.Millisecond, time.Second, false)
			time.Sleep(6 * time.Second)
			l.end()
			assert.False(t, c.events.ever(health.Suspected, health.Slow))
		})
	}
}

// A tenth of the endpoints are ejected at a time, or as many as the service config says.
func TestSimulatedFewEndpointsAreEjected(t *testing.T) {
	for config, most := range map[string]int{
		probedRoundRobin: 2,
		`{"quorate_round_robin":{"outlierDetection":{"maxEjectionPercent":25}}}`: 5,
		`{"quorate_round_robin":{"outlierDetection":{"maxEjectionPercent":1}}}`:  1,
	} {
		inBubble(t, 20, func(t *testing.T, servers []*server) {
			c := warm(t, config, servers, toolkit)
			for i, s := range servers[:6] {
				time.AfterFunc(time.Duration(i)*time.Second, func() { s.fail.Store(&errUnavailable) })
			}
			c.load(20, 200*time.Millisecond, time.Second, false)
			time.Sleep(10 * time.Second)
			ejected := 0
			for _, s := range servers {
				if c.is(s) == health.Suspected {
					ejected++
				}
			}
			assert.Equal(t, most, ejected)
		})
	}
}

// The loss of a connection fails many calls at once.
func TestSimulatedLostConnectionsEjectNoEndpoint(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, servers []*server) {
		each(servers, func(s *server) { s.delay.Store(int64(200 * time.Millisecond)) })
		c := warm(t, probedRoundRobin, servers, toolkit)
		c.load(60, time.Millisecond, time.Minute, false) // twelve calls are under way at each
		for range 3 {
			time.Sleep(2 * time.Second)
			servers[0].disconnect()
		}
		time.Sleep(time.Second)
		assert.False(t, c.events.ever(health.Suspected, health.Slow))
	})
}

// One pause does not leave an endpoint without calls, whatever its health service says afterwards.
func TestSimulatedEndpointThatPausedOnceGetsItsShareAgain(t *testing.T) {
	unauthenticated := status.Error(codes.Unauthenticated, "no token")
	unavailable := status.Error(codes.Unavailable, "the database is unreachable")
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
					each(servers, test.prepare)
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
		state := c.state(servers...)
		state.Endpoints[0] = balancer.SetPriority(state.Endpoints[0], 1)
		c.resolver.UpdateState(state)
		assert.Zero(t, servers[0].callsIn(5*time.Minute), "a backup gets no calls")
	})
}
