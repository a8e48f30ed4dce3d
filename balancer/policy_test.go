package balancer

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// recordingConn records the states of a policy.
type recordingConn struct {
	balancer.ClientConn
	states []balancer.State
}

func (c *recordingConn) UpdateState(s balancer.State) { c.states = append(c.states, s) }

// A policy above this one may pass on the resolver's error before any endpoints. Until there is a
// picker, all calls wait.
func TestResolverErrorBeforeTheFirstUpdateFailsCalls(t *testing.T) {
	cc := new(recordingConn)
	p := newPolicy(cc, Builder{})
	defer p.Close()
	p.ResolverError(errors.New("no such host"))
	require.Len(t, cc.states, 1)
	assert.Equal(t, connectivity.TransientFailure, cc.states[0].ConnectivityState)
	_, err := cc.states[0].Picker.Pick(balancer.PickInfo{Ctx: t.Context()})
	assert.EqualError(t, err, "no such host")
}
