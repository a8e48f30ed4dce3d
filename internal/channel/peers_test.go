package channel

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/attributes"
	gbalancer "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
)

// peers are the endpoints of a policy whose connections a test controls.
type peers struct {
	gbalancer.ClientConn
	t      *testing.T
	policy gbalancer.Balancer

	mu        sync.Mutex
	picker    gbalancer.Picker
	subConns  map[string]*fakeSubConn // by address, the latest
	endpoints map[string]*balancer.Endpoint
}

// newPeers returns connected endpoints with the given addresses.
func newPeers(t *testing.T, addresses ...string) *peers {
	p := &peers{t: t, subConns: make(map[string]*fakeSubConn), endpoints: make(map[string]*balancer.Endpoint)}
	p.policy = gbalancer.Get(balancer.Prefix+DefaultStrategy).Build(p, gbalancer.BuildOptions{})
	t.Cleanup(p.policy.Close)
	p.set(addresses...)
	for len(p.endpoints) < len(addresses) {
		ep := p.pick().endpoint()
		p.endpoints[ep.Address()] = ep
	}
	return p
}

// of returns endpoints by their addresses.
func (p *peers) of(addresses ...string) []*balancer.Endpoint {
	var eps []*balancer.Endpoint
	for _, a := range addresses {
		require.Contains(p.t, p.endpoints, a)
		eps = append(eps, p.endpoints[a])
	}
	return eps
}

// set replaces the endpoints, and connects new ones.
func (p *peers) set(addresses ...string) {
	state := resolver.State{}
	for _, a := range addresses {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{
			Addresses: []resolver.Address{{Addr: a, Attributes: attributes.New("test", a)}},
		})
	}
	_ = p.policy.UpdateClientConnState(gbalancer.ClientConnState{ResolverState: state})
	for _, a := range addresses {
		p.become(a, connectivity.Ready)
	}
}

// become changes the state of a connection.
func (p *peers) become(address string, s connectivity.State) {
	p.mu.Lock()
	sc := p.subConns[address]
	p.mu.Unlock()
	require.NotNil(p.t, sc, address)
	change := gbalancer.SubConnState{ConnectivityState: s}
	if s == connectivity.TransientFailure {
		change.ConnectionError = errGone
	}
	sc.listener(change)
}

// pick makes and returns an attempt that is answered.
func (p *peers) pick(avoid ...*balancer.Endpoint) *attempt {
	a := newAttempt(p.t)
	a.Avoid = avoid
	result, err := p.pickFor(a)
	require.NoError(p.t, err)
	result.Done(gbalancer.DoneInfo{BytesSent: true, BytesReceived: true})
	return a
}

func (p *peers) pickFor(a *attempt) (gbalancer.PickResult, error) {
	p.mu.Lock()
	picker := p.picker
	p.mu.Unlock()
	return picker.Pick(gbalancer.PickInfo{FullMethodName: "/s/m", Ctx: a.ctx})
}

func newAttempt(t *testing.T) *attempt {
	a := new(attempt)
	newTestCaller(nil, nil).start(t.Context(), a, &properties{})
	t.Cleanup(a.release)
	return a
}

// NewSubConn implements balancer.ClientConn.
func (p *peers) NewSubConn(addrs []resolver.Address, o gbalancer.NewSubConnOptions) (gbalancer.SubConn, error) {
	sc := &fakeSubConn{listener: o.StateListener}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subConns[addrs[0].Addr] = sc
	return sc, nil
}

// UpdateState implements balancer.ClientConn.
func (p *peers) UpdateState(s gbalancer.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.picker = s.Picker
}

type fakeSubConn struct {
	gbalancer.SubConn
	listener func(gbalancer.SubConnState)
}

func (*fakeSubConn) Connect()  {}
func (*fakeSubConn) Shutdown() {}

func (*fakeSubConn) RegisterHealthListener(listen func(gbalancer.SubConnState)) {
	listen(gbalancer.SubConnState{ConnectivityState: connectivity.Ready})
}
