package balancer

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// endedEvents records the errors of ended calls.
type endedEvents struct {
	noEvents
	errs []error
}

func (*endedEvents) IgnoresCalls() bool { return false }

func (e *endedEvents) Ended(_ *Endpoint, _ Call, _ time.Duration, err error) {
	e.errs = append(e.errs, err)
}

// gRPC ends a pick whose connection is lost before anything was sent with no error.
func TestPickThatWasNotSentIsNoSuccess(t *testing.T) {
	events := new(endedEvents)
	p := newPolicy(new(fakeClientConn), Builder{})
	defer p.Close()
	p.opts.Store(Options{Events: events}.withDefaults())
	ep := in("a", health.Served)
	pick, err := p.withOne(ep).Pick(balancer.PickInfo{FullMethodName: "/s/m", Ctx: t.Context()})
	require.NoError(t, err)
	pick.Done(balancer.DoneInfo{})
	require.Len(t, events.errs, 1)
	assert.Equal(t, codes.Unavailable, status.Code(events.errs[0]))
	assert.EqualValues(t, 1, ep.Inspect(1).Work[0].Failed)
}

// A policy above this one may pass on the resolver's error before any endpoints. Until there is a
// picker, all calls wait.
func TestResolverErrorBeforeTheFirstUpdateFailsCalls(t *testing.T) {
	cc := new(fakeClientConn)
	p := newPolicy(cc, Builder{})
	defer p.Close()
	p.ResolverError(errors.New("no such host"))
	require.Len(t, cc.states, 1)
	assert.Equal(t, connectivity.TransientFailure, cc.states[0].ConnectivityState)
	_, err := cc.states[0].Picker.Pick(balancer.PickInfo{Ctx: t.Context()})
	assert.EqualError(t, err, "no such host")
}
