package balancer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/health"
)

// fakeClientConn is gRPC's side of a policy. It keeps the states, each with a picker.
type fakeClientConn struct {
	balancer.ClientConn
	states    []balancer.State
	listeners []func(balancer.SubConnState)
}

func (c *fakeClientConn) UpdateState(s balancer.State) { c.states = append(c.states, s) }

func (*fakeClientConn) UpdateAddresses(balancer.SubConn, []resolver.Address) {}

func (c *fakeClientConn) NewSubConn(_ []resolver.Address, o balancer.NewSubConnOptions) (balancer.SubConn, error) {
	c.listeners = append(c.listeners, o.StateListener)
	return new(fakeSubConn), nil
}

type fakeSubConn struct {
	balancer.SubConn
	_ byte // so that each has an address of its own
}

func (*fakeSubConn) Connect()  {}
func (*fakeSubConn) Shutdown() {}

func (*fakeSubConn) RegisterHealthListener(listen func(balancer.SubConnState)) {
	listen(balancer.SubConnState{ConnectivityState: connectivity.Ready})
}

// manyEndpoints returns n endpoints with the attributes.
func manyEndpoints(n int, attrs *attributes.Attributes) resolver.State {
	var s resolver.State
	for i := range n {
		s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{
			{Addr: "gateway", Attributes: attrs}, {Addr: fmt.Sprint(i), Attributes: attrs},
		}})
	}
	return s
}

// newManyPolicy returns a policy with n endpoints, none connected.
func newManyPolicy(tb testing.TB, n int) (*policy, *fakeClientConn) {
	tb.Helper()
	cc := new(fakeClientConn)
	p := newPolicy(cc, Builder{Build: func(serviceconfig.LoadBalancingConfig) Strategy { return firstFit{} }})
	tb.Cleanup(p.Close)
	require.NoError(tb, p.UpdateClientConnState(balancer.ClientConnState{ResolverState: manyEndpoints(n, nil)}))
	return p, cc
}

// connectAll connects every endpoint, and lets it answer.
func (c *fakeClientConn) connectAll(p *policy) {
	for _, listen := range c.listeners {
		listen(balancer.SubConnState{ConnectivityState: connectivity.Connecting})
		listen(balancer.SubConnState{ConnectivityState: connectivity.Ready})
	}
	for _, ep := range p.all() {
		p.proof.completed(ep.conn(Calls), time.Now(), time.Now().Add(time.Millisecond))
		p.note(ep, health.Evidence{Kind: health.Served, At: time.Now()})
	}
	for _, ep := range p.all() {
		p.note(ep, health.Evidence{Kind: health.Degrading, At: time.Now()})
		p.note(ep, health.Evidence{Kind: health.Served, At: time.Now()})
	}
}

// sizes are numbers of endpoints.
var sizes = []int{200, 400}

func TestManyEndpointsThatConnectAtOnceNeedFewPickers(t *testing.T) {
	for _, n := range sizes {
		synctest.Test(t, func(t *testing.T) {
			p, cc := newManyPolicy(t, n)
			improved := p.options().Monitor.Improved()
			cc.connectAll(p)
			time.Sleep(time.Second)
			synctest.Wait()
			assert.LessOrEqual(t, len(cc.states), 3, "%d endpoints", n)
			k := p.latest.Load()
			assert.Len(t, k.connected, n)
			assert.Len(t, k.fit[needWrite], n, "the last picker knows the last state")
			select {
			case <-improved:
			default:
				assert.Fail(t, "retries that wait are not woken")
			}
		})
	}
}

func TestFewEndpointsGetEachPickerAtOnce(t *testing.T) {
	p, cc := newManyPolicy(t, 20)
	before := len(cc.states)
	cc.connectAll(p)
	assert.GreaterOrEqual(t, len(cc.states)-before, 4*20)
	assert.Len(t, p.latest.Load().fit[needWrite], 20)
}

// In an outage, the attempts of a client wake no calls that wait.
func TestAnOutageNeedsFewPickers(t *testing.T) {
	_, cc := newManyPolicy(t, 3)
	refuse := func(err error) {
		for _, listen := range cc.listeners {
			listen(balancer.SubConnState{ConnectivityState: connectivity.Connecting})
			listen(balancer.SubConnState{ConnectivityState: connectivity.TransientFailure, ConnectionError: err})
			listen(balancer.SubConnState{ConnectivityState: connectivity.Idle})
		}
	}
	refuse(errors.New("connection refused"))
	before := len(cc.states)
	for i := range 10 {
		refuse(fmt.Errorf("refused again: %d", i))
	}
	assert.Equal(t, 10, len(cc.states)-before, "each shows the latest error")
}

// counted is an attribute that counts comparisons.
type counted struct{ comparisons *int }

func (c counted) Equal(any) bool {
	*c.comparisons++
	return true
}

func TestEachUpdateComparesAnEndpointOnce(t *testing.T) {
	for _, n := range sizes {
		p, _ := newManyPolicy(t, 1)
		compared := 0
		attrs := attributes.New("counted", counted{&compared})
		for range 2 {
			compared = 0
			require.NoError(t, p.UpdateClientConnState(balancer.ClientConnState{ResolverState: manyEndpoints(n, attrs)}))
		}
		assert.Len(t, p.all(), n)
		assert.LessOrEqual(t, compared, 2*n, "an address is compared once")
	}
}

// Calls, their checks and their repetitions cost the same, however many endpoints there are.
func TestCallsCostTheSameWithManyEndpoints(t *testing.T) {
	for _, n := range sizes {
		synctest.Test(t, func(t *testing.T) {
			p, cc := newManyPolicy(t, n)
			cc.connectAll(p)
			time.Sleep(time.Second)
			synctest.Wait()
			eps, k := p.all(), p.latest.Load()
			assert.Zero(t, testing.AllocsPerRun(100, func() { assert.True(t, eps[0].hasAlternative(Full)) }))
			assert.Equal(t, maxOthers, len(eps[n-1].others())) //nolint:testifylint // an endpoint is long in print
			assert.GreaterOrEqual(t, maxOthers+1, len(k.others(&Attempt{Avoid: eps[:1]}, k.fit[needFull])), "a repetition looks at some")
			assert.Len(t, k.others(&Attempt{Avoid: eps[:n-1]}, k.fit[needFull]), 1, "even if it avoids all but one")
		})
	}
}

// firstFit is a strategy.
type firstFit struct{}

func (firstFit) Pick(_ Call, fit []*Endpoint) *Endpoint { return fit[0] }

// BenchmarkPick is a pick and its end.
func BenchmarkPick(b *testing.B) {
	p := newPolicy(nil, Builder{})
	defer p.stop()
	k := p.withOne(in("a", health.Served))
	p.latest.Store(k)
	p.endpoints.Store(&k.connected)
	p.proof.proven = true
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a := &Attempt{Shape: "get"}
			ctx := WithAttempt(context.Background(), a)
			r, err := k.Pick(balancer.PickInfo{FullMethodName: "/etcdserverpb.KV/Range", Ctx: ctx})
			if err != nil {
				b.Fatal(err)
			}
			r.Done(balancer.DoneInfo{BytesSent: true, BytesReceived: true})
		}
	})
	p.all()[0].inflight.stop()
}

// withOne returns a picker of the policy with one endpoint, which is connected and fit.
func (p *policy) withOne(ep *Endpoint) *picker {
	p.chosen.Store(&chosen{Strategy: firstFit{}})
	ep.policy = p
	s := &subConn{ep: ep}
	ep.conns[Calls].Store(s)
	ep.usable[Calls].Store(&usable{subConn: s})
	k := &picker{p: p, connected: []*Endpoint{ep}}
	for n := range k.fit {
		k.fit[n] = k.connected
	}
	return k
}
