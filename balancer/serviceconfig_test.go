package balancer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/quorate/quorate/health"
)

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

func TestHealthProbeOfALaterServiceConfig(t *testing.T) {
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

func TestStrategyOfALaterServiceConfig(t *testing.T) {
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
