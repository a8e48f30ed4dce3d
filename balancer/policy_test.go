package balancer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
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

// gRPC ends a pick whose connection is lost before the request was sent with no error.
func TestPickThatWasNotSentIsNoSuccess(t *testing.T) {
	events := new(endedEvents)
	p := newPolicy(new(fakeClientConn), Builder{})
	defer p.Close()
	p.opts.Store(Options{Events: events}.withDefaults())
	ep := in("a", health.Served)
	for i, end := range []balancer.DoneInfo{{}, {BytesSent: true}} {
		pick, err := p.withOne(ep).Pick(balancer.PickInfo{FullMethodName: "/s/m", Ctx: t.Context()})
		require.NoError(t, err)
		pick.Done(end)
		require.Len(t, events.errs, i+1)
		assert.Equal(t, codes.Unavailable, status.Code(events.errs[i]))
		assert.EqualValues(t, i+1, ep.Inspect(1).Work[0].Failed)
	}
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

type securityKey struct{}

// address returns an address whose attributes have a security, as in clientv3.
func address(addr, serverName, security string) resolver.Address {
	a := resolver.Address{Addr: addr, ServerName: serverName}
	if security != "" {
		a.Attributes = attributes.New(securityKey{}, security)
	}
	return a
}

func TestSecurityIsPartOfTheIdentityOfAnEndpoint(t *testing.T) {
	plain, tls := address("h:1", "h", "plain"), address("h:1", "h", "tls")
	tests := map[string]struct {
		a, b []resolver.Address
		want bool
	}{
		"the same":                {[]resolver.Address{plain}, []resolver.Address{address("h:1", "h", "plain")}, true},
		"security":                {[]resolver.Address{plain}, []resolver.Address{tls}, false},
		"no security":             {[]resolver.Address{plain}, []resolver.Address{address("h:1", "h", "")}, false},
		"server name":             {[]resolver.Address{plain}, []resolver.Address{address("h:1", "i", "plain")}, false},
		"address":                 {[]resolver.Address{plain}, []resolver.Address{address("h:2", "h", "plain")}, false},
		"another address":         {[]resolver.Address{plain}, []resolver.Address{plain, tls}, false},
		"the order of addresses":  {[]resolver.Address{plain, address("h:2", "h", "")}, []resolver.Address{address("h:2", "h", ""), plain}, true},
		"the order of securities": {[]resolver.Address{plain, tls}, []resolver.Address{tls, plain}, false},
		"security of the second":  {[]resolver.Address{plain, plain}, []resolver.Address{plain, tls}, false},
		"several equal addresses": {[]resolver.Address{plain, tls}, []resolver.Address{plain, tls}, true},
	}
	for name, tt := range tests {
		assert.Equal(t, tt.want, same(tt.a, tt.b), name)
		assert.Equal(t, tt.want, same(tt.b, tt.a), name)
	}
}

func TestEndpointsAreUnique(t *testing.T) {
	endpoint := func(addresses ...resolver.Address) resolver.Endpoint { return resolver.Endpoint{Addresses: addresses} }
	a, b, tls := address("a", "", ""), address("b", "", ""), address("a", "", "tls")
	p := newPolicy(nil, Builder{})
	p.config = defaultConfig
	defer p.Close()
	assert.Empty(t, p.replaceLocked([]resolver.Endpoint{endpoint(a), endpoint(), endpoint(b), endpoint(a), endpoint(tls), endpoint(a, b), endpoint(b)}))
	var kept [][]resolver.Address
	for _, ep := range p.all() {
		kept = append(kept, ep.addresses)
	}
	assert.Equal(t, [][]resolver.Address{{a}, {b}, {tls}, {a, b}}, kept)
	assert.Len(t, p.options().Table.All(), len(kept), "each has its own health")
	assert.Len(t, p.replaceLocked(nil), len(kept))
	assert.Empty(t, p.all())
}

// gRPC's warnings print the attributes of an address.
func TestKeysOfAttributesHaveNames(t *testing.T) {
	assert.Equal(t, "quorate.subConn", fmt.Sprint(subConnKey{}))
	for _, key := range []any{subConnKey{}, weightKey{}, optionsKey{}} {
		assert.Implements(t, (*fmt.Stringer)(nil), key)
	}
	s := &subConn{ep: &Endpoint{addresses: []resolver.Address{{Addr: "a"}}}}
	assert.NotContains(t, markedAddresses(s)[0].Attributes.String(), "%!p")
	assert.Contains(t, SetWeight(resolver.Endpoint{}, 3).Attributes.String(), `"quorate.weight": "3"`)
}

func TestRank(t *testing.T) {
	type ranks struct{ full, local, write int }
	for state, want := range map[health.State]ranks{
		health.Serving:    {0, 0, 0},
		health.Unknown:    {0, 0, 0},
		health.Slow:       {2, 2, 2},
		health.Suspected:  {3, 3, 3},
		health.Lagging:    {4, 4, 4},
		health.Degraded:   {5, 2, 5},
		health.Restricted: {5, 2, 5},
		health.NotServing: {6, 6, 6},
		health.Draining:   {7, 7, 7},
		health.Dead:       {7, 7, 7},
	} {
		assert.Equal(t, want, ranks{rank(state, needFull), rank(state, needLocal), rank(state, needWrite)}, "%v", state)
	}
}

func TestNeedOfAnAttempt(t *testing.T) {
	assert.Equal(t, needFull, (&Attempt{}).need())
	assert.Equal(t, needWrite, (&Attempt{Write: true}).need())
	assert.Equal(t, needLocal, (&Attempt{Need: Local}).need())
	assert.Equal(t, needLocal, (&Attempt{Need: Local, Write: true}).need())
}

// in returns a detached endpoint in a state that evidence leads to.
func in(address string, kinds ...health.Kind) *Endpoint {
	ep := Detached(address, nil, nil)
	for _, k := range kinds {
		if k == health.Served {
			ep.healthEntry().Completed(time.Now(), time.Now().Add(time.Millisecond))
		}
		ep.healthEntry().Note(health.Evidence{Kind: k})
	}
	return ep
}

func TestBestAreAllOfTheLowestRank(t *testing.T) {
	serving, unknown := in("serving", health.Served), in("unknown")
	also, suspect, dead := in("also", health.Served), in("suspect", health.Served, health.Suspicious), in("dead", health.Unresponsive)
	degraded, alive := in("degraded", health.Degrading), in("alive", health.Answered)
	assert.Equal(t, []*Endpoint{serving}, best([]*Endpoint{alive, serving}, needWrite), "an answer does not show that it serves")
	eps := []*Endpoint{dead, suspect, serving, unknown, also, degraded}
	assert.Equal(t, []*Endpoint{serving, unknown, also}, best(eps, needFull))
	assert.Equal(t, []*Endpoint{serving, also}, best(eps, needWrite))
	assert.Equal(t, []*Endpoint{degraded}, best([]*Endpoint{dead, suspect, degraded}, needLocal))
	assert.Equal(t, []*Endpoint{suspect}, best([]*Endpoint{dead, suspect, degraded}, needFull))
	assert.Equal(t, []*Endpoint{dead}, best([]*Endpoint{dead}, needFull))
	assert.Empty(t, best(nil, needFull))
}

func TestChoiceAvoidsEndpoints(t *testing.T) {
	serving, also, suspect := in("serving", health.Served), in("also", health.Served), in("suspect", health.Served, health.Suspicious)
	degraded := in("degraded", health.Degrading)
	k := &picker{connected: []*Endpoint{serving, also, suspect, degraded}}
	k.rank()
	assert.Equal(t, []*Endpoint{serving, also}, k.others(&Attempt{}, k.fit[needFull]))
	assert.Equal(t, []*Endpoint{also}, k.others(&Attempt{Avoid: []*Endpoint{serving}}, k.fit[needFull]))
	assert.Equal(t, []*Endpoint{suspect}, k.others(&Attempt{Avoid: []*Endpoint{serving, also}}, k.fit[needFull]), "one that is less fit")
	write := &Attempt{Write: true, Avoid: []*Endpoint{serving, also, suspect}}
	assert.Equal(t, []*Endpoint{serving, also}, k.others(write, k.fit[needWrite]), "no write goes where there is no leader")
	local := &Attempt{Need: Local, Avoid: []*Endpoint{serving, also}}
	assert.Equal(t, []*Endpoint{degraded}, k.others(local, k.fit[needLocal]), "one without quorum serves local reads")
	all := k.connected
	assert.Equal(t, []*Endpoint{serving, also}, k.others(&Attempt{Avoid: all}, k.fit[needFull]), "no other is left")
	assert.Empty(t, k.others(&Attempt{Avoid: all, AvoidStrictly: true}, k.fit[needFull]))
}
