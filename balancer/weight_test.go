package balancer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
)

func TestWeightOf(t *testing.T) {
	ep := resolver.Endpoint{Addresses: []resolver.Address{{Addr: "a"}}}
	assert.EqualValues(t, balancer.DefaultWeight, balancer.WeightOf(ep))
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
				assert.InDelta(t, 20*weights[i], calls[i], 1, "weights %v", weights)
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
