package balancer_test

import (
	"testing"
	"testing/synctest"

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
	assert.EqualValues(t, balancer.DefaultWeight, balancer.WeightOf(ep), "the endpoint that was given is as it was")
}

// The shares of calls follow the resolver's weights, and their changes, on the same
// connections.
func TestCallsFollowWeights(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, servers []*server) {
		c := warm(t, roundRobin, servers)
		for _, weights := range [][2]uint32{{3, 1}, {1, 4}, {1, 1}} {
			state := c.state(servers...)
			for i := range state.Endpoints {
				state.Endpoints[i] = balancer.SetWeight(state.Endpoints[i], weights[i])
			}
			c.resolver.UpdateState(state)
			synctest.Wait()
			for _, s := range servers {
				s.calls.Store(0)
			}
			for range 20 * (weights[0] + weights[1]) {
				require.NoError(t, c.read().err)
			}
			for i, s := range servers {
				assert.InDelta(t, 20*weights[i], s.calls.Load(), 1, "weights %v", weights)
			}
		}
		for _, s := range servers {
			assert.EqualValues(t, 1, s.conns.Load(), "connections")
		}
	})
}
