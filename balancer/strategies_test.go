package balancer_test

import (
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	grpcbalancer "google.golang.org/grpc/balancer"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// Each strategy connects to, and sends calls to, as many servers as its row says.
func TestStrategiesConnect(t *testing.T) {
	tests := map[string]struct {
		connections int
		used        int // -1 if it depends on timing
	}{
		`{"quorate_round_robin":{}}`:                 {3, 3},
		`{"quorate_pinned":{"form":"first_of_all"}}`: {3, 1},
		`{"quorate_pinned":{"form":"race"}}`:         {1, 1},
		`{"quorate_pinned":{}}`:                      {1, 1},
		`{"quorate_p2c":{}}`:                         {3, -1},
		`{"quorate_nearest":{}}`:                     {3, -1},
	}
	for config, want := range tests {
		subtest(t, config, 3, func(t *testing.T, servers []*server) {
			c := connect(t, config, servers)
			require.NoError(t, c.read().err)
			time.Sleep(time.Second)
			assert.Equal(t, want.connections, connections(servers))
			calls := received(servers, func() { c.reads(100) })
			if want.used > 0 {
				assert.Len(t, slices.DeleteFunc(calls, func(n int64) bool { return n == 0 }), want.used)
			}
			assert.Equal(t, want.connections, connections(servers))
		})
	}
}

// A call that waits for the frozen connection ends, although the strategy no longer uses the
// endpoint.
func TestPinMovesWhenThePinnedEndpointFreezes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := connect(t, `{"quorate_pinned":{}}`, servers)
		o := c.read()
		require.NoError(t, o.err)
		frozen := c.server(o.at)
		frozen.frozen.Shut()
		stuck := make(chan outcome, 1)
		go func() { stuck <- c.write() }()
		time.Sleep(time.Second)
		again := c.read()
		require.NoError(t, again.err)
		assert.NotSame(t, o.at, again.at)
		assert.LessOrEqual(t, again.took, usual)
		o = <-stuck
		assert.Error(t, o.cut)
		assert.Less(t, o.took, 2*time.Second)
		time.Sleep(time.Second)
		assert.LessOrEqual(t, connections(servers), 2, "a new one, and the frozen one")
		frozen.frozen.Open()
	})
}

// An endpoint that was left because it stalled stays connected until it serves, and then races again.
func TestEndpointThatThePinLeftServesAgain(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := connect(t, `{"quorate_pinned":{}}`, servers)
		c.load(4, 10*time.Millisecond, 10*time.Second, false)
		time.Sleep(2 * time.Second)
		left := c.server(c.read().at)
		left.stalled.Shut()
		time.Sleep(3 * time.Second)
		left.stalled.Open()
		within(t, 2*time.Second, "it serves", func() bool { return c.is(left) == health.Serving })
		within(t, time.Second, "it is left", func() bool { return connections(servers) == 1 })
	})
}

// A connection that is lost is made again. The others are made if that takes long, or fails.
func TestPinnedConnectionIsMadeAgain(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := connect(t, `{"quorate_pinned":{}}`, servers)
		o := c.read()
		require.NoError(t, o.err)
		pinned := c.server(o.at)
		time.Sleep(time.Second)
		before := dials(servers)
		for range 5 {
			pinned.disconnect()
			synctest.Wait()
			require.NoError(t, c.read().err)
		}
		require.EqualValues(t, 5, dials(servers)-before)
		for _, lose := range []func(*server){func(s *server) { s.blackhole.Shut() }, (*server).kill} {
			lose(pinned)
			pinned.disconnect()
			synctest.Wait()
			o = c.read()
			require.NoError(t, o.err)
			require.NotSame(t, pinned, c.server(o.at))
			pinned = c.server(o.at)
		}
	})
}

// A strategy that learns forgets failures once the endpoint is shown to serve.
func TestRestoredEndpointIsUsedAgain(t *testing.T) {
	for _, config := range []string{`{"quorate_p2c":{}}`, `{"quorate_nearest":{}}`} {
		subtest(t, config, 2, func(t *testing.T, servers []*server) {
			servers[1].delay.Store(int64(10 * time.Millisecond))
			c := warm(t, config, servers)
			c.load(4, 5*time.Millisecond, 10*time.Second, false)
			s := servers[0]
			s.frozen.Shut()
			within(t, 2*time.Second, "dead", func() bool { return c.is(s) == health.Dead })
			s.frozen.Open()
			within(t, 11*time.Second, "serving", func() bool { return c.is(s) == health.Serving })
			before := s.calls.Load()
			within(t, 3*time.Second, "used", func() bool { return s.calls.Load() > before+100 })
		})
	}
}

// shares returns the shares of the calls in that time that each server gets.
func (c *client) shares(length time.Duration) []float64 {
	shares, sum := make([]float64, len(c.servers)), int64(0)
	calls := received(c.servers, func() { time.Sleep(length) })
	for _, n := range calls {
		sum += n
	}
	for i, n := range calls {
		shares[i] = float64(n) / float64(sum)
	}
	return shares
}

// roleAware is a strategy that needs the roles of endpoints.
type roleAware struct{}

func (roleAware) RoleAware() {}

func (roleAware) Pick(_ balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint { return fit[0] }

func init() {
	balancer.Register(balancer.Builder{
		Name:  "role_aware",
		Build: func(serviceconfig.LoadBalancingConfig) balancer.Strategy { return roleAware{} },
	})
	balancer.Register(balancer.Builder{
		Name:  "siblings",
		Build: func(serviceconfig.LoadBalancingConfig) balancer.Strategy { return siblings{} },
	})
}

func TestRolesAreRequestedForRoleAwareStrategies(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		var asked atomic.Int64
		c := warm(t, `{"quorate_role_aware":{}}`, servers, func(o *balancer.Options) { o.Status = prober{sent: &asked} })
		assert.GreaterOrEqual(t, asked.Load(), int64(3), "each connected endpoint")
		assert.LessOrEqual(t, asked.Load(), int64(10))
		time.Sleep(time.Minute)
		before := asked.Load()
		time.Sleep(time.Minute)
		assert.Equal(t, before, asked.Load())
		c.endpoint(servers[0]).RolesChanged()
		time.Sleep(time.Millisecond)
		assert.Equal(t, before+3, asked.Load(), "evidence of changed roles")
		for range 1000 {
			c.endpoint(servers[0]).RolesChanged()
		}
		time.Sleep(time.Millisecond)
		assert.LessOrEqual(t, asked.Load(), before+10, "the budget")
		var none *balancer.Endpoint
		none.RolesChanged()
	})
}

// siblings is a strategy that looks at all endpoints wherever the policy calls it.
type siblings struct{ roleAware }

func (siblings) Attach(ep *balancer.Endpoint) any { return len(ep.Siblings()) }

func (siblings) Wanted(all []*balancer.Endpoint) []*balancer.Endpoint {
	if len(all) == 0 {
		return nil
	}
	return all[0].Siblings()
}

func (siblings) Pick(_ balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	siblings := fit[0].Siblings()
	return siblings[slices.Index(siblings, fit[0])]
}

func TestStrategiesMayLookAtAllEndpoints(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := connect(t, `{"quorate_siblings":{}}`, servers)
		ep := c.open(balancer.Bulk, nil).Endpoint()
		assert.Equal(t, c.monitor.Endpoints(), ep.Siblings())
		require.NoError(t, c.Close())
		assert.Empty(t, ep.Siblings())
	})
}

func TestWeightOf(t *testing.T) {
	ep := resolver.Endpoint{Addresses: []resolver.Address{{Addr: "a"}}}
	for weight, want := range map[uint32]uint32{0: balancer.DefaultWeight, 7: 7, 1 << 31: balancer.MaxWeight} {
		assert.Equal(t, want, balancer.WeightOf(balancer.SetWeight(ep, weight)))
	}
	assert.EqualValues(t, balancer.DefaultWeight, balancer.WeightOf(ep), "the given endpoint is unchanged")
}

// Calls follow the resolver's weights, and their changes, on the same connections.
func TestCallsFollowWeights(t *testing.T) {
	withClient(t, 2, func(t *testing.T, c *client, servers []*server) {
		for _, weights := range [][2]uint32{{3, 1}, {1, 4}, {1, 1}} {
			state := c.state(servers...)
			for i := range state.Endpoints {
				state.Endpoints[i] = balancer.SetWeight(state.Endpoints[i], weights[i])
			}
			c.resolver.UpdateState(state)
			synctest.Wait()
			calls := received(servers, func() { c.reads(20 * int(weights[0]+weights[1])) })
			for i := range servers {
				assert.InDelta(t, 20*weights[i], calls[i], 2, "weights %v", weights)
			}
		}
		for _, s := range servers {
			assert.EqualValues(t, 1, s.conns.Load(), "connections")
		}
	})
}

// Calls go to the endpoints of the best priority that has a working one.
func TestCallsFollowPriorities(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, servers []*server) {
		c := connect(t, roundRobin, servers)
		state := c.state(servers...)
		for i, priority := range []uint32{20, 10, 10, 5} {
			state.Endpoints[i] = balancer.SetPriority(state.Endpoints[i], priority)
			require.Equal(t, priority, balancer.PriorityOf(state.Endpoints[i]))
		}
		c.resolver.UpdateState(state)
		c.warm()
		serve := func(want ...int) {
			t.Helper()
			synctest.Wait()
			var served []int
			for i, calls := range received(servers, func() { c.reads(20) }) {
				if calls > 0 {
					served = append(served, i)
				}
			}
			require.Equal(t, want, served)
		}
		serve(3)
		servers[3].kill()
		serve(1, 2)
		servers[1].kill()
		serve(2)
		servers[2].kill()
		serve(0)
		servers[1].restart()
		time.Sleep(time.Minute) // reconnected, and probed
		serve(1)
		// A change of priorities alone keeps the connections.
		conns := servers[0].conns.Load()
		state.Endpoints[0] = balancer.SetPriority(state.Endpoints[0], 0)
		c.resolver.UpdateState(state)
		serve(0)
		require.Equal(t, conns, servers[0].conns.Load())
	})
}

// The calls go to one endpoint of the best priority, even if a backup was connected first.
func TestPinFollowsPriorities(t *testing.T) {
	for _, form := range []string{"race", "first_of_all"} {
		t.Run(form, func(t *testing.T) {
			inBubble(t, 4, func(t *testing.T, servers []*server) {
				c := connect(t, `{"quorate_pinned":{"form":"`+form+`"}}`, servers)
				state := c.state(servers...)
				state.Endpoints[0] = balancer.SetPriority(state.Endpoints[0], 1)
				c.resolver.InitialState(state)
				for _, s := range servers[1:] {
					s.blackhole.Shut()
				}
				require.NoError(t, c.read().err)
				require.EqualValues(t, 1, servers[0].calls.Load())
				for _, s := range servers[1:] {
					s.blackhole.Open()
				}
				time.Sleep(time.Second)
				calls := received(servers, func() { c.reads(20) })
				assert.Zero(t, calls[0])
				assert.EqualValues(t, 20, slices.Max(calls), "all on one: %v", calls)
			})
		})
	}
}

// configure publishes a service config with a policy.
func (c *client) configure(policy string) {
	c.t.Helper()
	st := c.state(c.servers...)
	st.ServiceConfig = c.resolver.CC().ParseServiceConfig(`{"loadBalancingConfig":[` + policy + `]}`)
	require.NoError(c.t, st.ServiceConfig.Err)
	c.resolver.UpdateState(st)
	synctest.Wait()
}

// gRPC closes the old policy only after the new one is connected.
func TestMonitorKeepsTheEndpointsOfANewPolicy(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *client, servers []*server) {
		before := c.monitor.Endpoints()
		c.configure(`{"quorate_p2c":{}}`)
		time.Sleep(time.Second)
		require.Len(t, c.monitor.Endpoints(), 3)
		assert.NotContains(t, before, c.monitor.Endpoints()[0])
		c.warm()
		c.load(3, 20*time.Millisecond, time.Hour, false)
		servers[0].frozen.Shut()
		within(t, 2*time.Second, "dead", func() bool { return c.is(servers[0]) == health.Dead })
	})
}

func TestHealthProbeOfALaterServiceConfigIsUsed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := warm(t, roundRobin, servers, unprobed)
		c.configure(`{"quorate_round_robin":{"healthProbe":{}}}`)
		c.load(3, 20*time.Millisecond, time.Hour, false)
		servers[0].frozen.Shut()
		within(t, 2*time.Second, "dead", func() bool { return c.is(servers[0]) == health.Dead })
	})
}

// Nothing but a probe would find that the endpoint serves again.
func TestEjectedEndpointIsReadmittedWhenProbesEnd(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := warm(t, `{"quorate_round_robin":{"healthProbe":{}}}`, servers, unprobed)
		servers[0].fail.Store(&errNoLeader)
		servers[0].status.Store(int32(healthpb.HealthCheckResponse_NOT_SERVING))
		require.ErrorIs(t, (<-c.starting(1, servers[0], aRead)).err, errNoLeader)
		within(t, time.Second, "probed", func() bool { return c.is(servers[0]) == health.NotServing })
		c.configure(roundRobin)
		assert.Equal(t, health.Serving, c.is(servers[0]))
	})
}

func TestStrategyOfALaterServiceConfigIsUsed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := connect(t, `{"quorate_pinned":{"form":"race"}}`, servers)
		require.NoError(t, c.read().err)
		time.Sleep(time.Second)
		require.Equal(t, 1, connections(servers))
		c.configure(`{"quorate_pinned":{"form":"first_of_all"}}`)
		time.Sleep(time.Second)
		assert.Equal(t, 3, connections(servers))
		require.NoError(t, c.read().err)
	})
}

// Policies above this one parse its config, and pass it on as JSON or parsed.
func TestConfigsSurviveJSON(t *testing.T) {
	for name, object := range map[string]string{
		"quorate_round_robin": `{"drainTimeout":"7s","healthProbe":{"serviceName":"greeter"},"outlierDetection":{"maxEjectionPercent":20}}`,
		"quorate_pinned":      `{"form":"first_of_all"}`,
		"quorate_nearest":     `{}`,
		"quorate_p2c":         `{"healthProbe":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			parser, ok := grpcbalancer.Get(name).(grpcbalancer.ConfigParser)
			require.True(t, ok)
			config, err := parser.ParseConfig(json.RawMessage(object))
			require.NoError(t, err)
			js, err := json.Marshal(config)
			require.NoError(t, err)
			assert.JSONEq(t, object, string(js))
			again, err := parser.ParseConfig(js)
			require.NoError(t, err)
			assert.Equal(t, config, again)
		})
	}
}
