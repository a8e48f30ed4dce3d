package balancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/health"
)

// policy is the policy of one ClientConn, with one strategy.
//
// Its lock guards the endpoints and their connections. Evidence is noted without it;
// handling a change of state takes the lock. Lock order: a strategy's locks are taken
// under that of the policy; inflight.mu and those of package health are taken last, and
// no function is called under them.
type policy struct {
	cc      balancer.ClientConn
	builder Builder
	shapes  shapes
	terms   terms

	prober     prober
	checks     checker
	reconnects reconnector
	proof      proof

	opts atomic.Pointer[Options]
	// endpoints are replaced, with the lock, and never changed.
	endpoints atomic.Pointer[[]*Endpoint]
	chosen    atomic.Pointer[chosen] // without a strategy before the first update
	latest    atomic.Pointer[picker] // nil before the first
	// improved is set when an endpoint can serve more than before, and ejected when one no longer
	// serves calls of every kind, until it is published.
	improved, ejected atomic.Bool
	// holding is set while writes wait for a sign of life: see heard.
	holding  atomic.Bool
	weighted atomic.Bool // endpoints differ in weight
	heavy    atomic.Bool // streams have connections of their own

	mu          sync.Mutex
	config      config
	given       *Options  // from the resolver, without the probe of a service config; nil before the first update
	resolverErr error     // the resolver's error, while there are no endpoints
	nextPublish time.Time // when the pause after the latest picker ends
	publishing  bool      // a picker follows at the end of the pause
	closed      bool
	drains      drains
	tasks       sync.WaitGroup // goroutines that run in the background

	ctx  context.Context // ends with the policy
	stop context.CancelFunc
}

var _ balancer.Balancer = (*policy)(nil)

func newPolicy(cc balancer.ClientConn, b Builder) *policy {
	p := &policy{cc: cc, builder: b}
	p.prober.p, p.checks.p, p.reconnects.p, p.proof.p = p, p, p, p
	p.drains = drains{p: p, timers: make(map[*Endpoint]*time.Timer)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.opts.Store(Options{}.withDefaults())
	p.chosen.Store(new(chosen))
	p.endpoints.Store(new([]*Endpoint))
	return p
}

func (p *policy) options() *Options { return p.opts.Load() }

// chosen is a strategy; learner is the strategy as a Learner, nil if it is none.
type chosen struct {
	Strategy
	learner Learner
}

// strategy returns the strategy, nil before the first update: there are no picks before it.
func (p *policy) strategy() Strategy { return p.chosen.Load().Strategy }

// start runs a task in the background. It returns false, and runs nothing, once the policy is closed.
func (p *policy) start(task func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.tasks.Go(task)
	return true
}

// UpdateClientConnState applies the resolver's update. Endpoints that stay keep their
// connections.
func (p *policy) UpdateClientConnState(s balancer.ClientConnState) error {
	p.configure(s)
	p.mu.Lock()
	changes := p.replaceLocked(s.ResolverState.Endpoints)
	p.resolverErr = nil
	var err error
	if len(p.all()) == 0 {
		p.resolverErr = errors.New("the resolver found no endpoints")
		err = balancer.ErrBadResolverState
	}
	p.mu.Unlock()
	for _, c := range changes {
		p.options().Events.Changed(c.ep, c.Change)
	}
	p.publish()
	p.joinConnected()
	for _, ep := range p.all() {
		if ep.Ready() {
			p.prober.readmitUnprobed(ep, time.Now(), "there are no probes any more")
			p.prober.investigate(ep)
		}
	}
	return err
}

// configure applies the service config. The resolver's options are those of the first update.
func (p *policy) configure(s balancer.ClientConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.config
	p.config = defaultConfig
	if c, ok := s.BalancerConfig.(config); ok {
		p.config = c
	}
	if p.given == nil {
		p.given = OptionsOf(s.ResolverState).withDefaults()
	}
	o := *p.given
	o.maxEjectionPercent = p.config.maxEjectionPercent
	if o.Service == nil {
		o.Service = p.config.prober
	}
	p.opts.Store(o.withDefaults())
	if p.strategy() == nil || !reflect.DeepEqual(p.config.strategy, was.strategy) {
		strategy := p.builder.Build(p.config.strategy)
		learner, _ := strategy.(Learner)
		p.chosen.Store(&chosen{strategy, learner})
	}
}

// all returns the endpoints, none after Close. The caller must not modify the slice. It takes no lock: strategies call it
// under that of the policy.
func (p *policy) all() []*Endpoint { return *p.endpoints.Load() }

// same reports whether two endpoints are the same one: they have the same addresses, server
// names and attributes, which hold the security of an address. The order of the addresses does not matter.
func same(a, b []resolver.Address) bool {
	return slices.EqualFunc(inOrder(a), inOrder(b), func(x, y resolver.Address) bool {
		return x.Addr == y.Addr && x.ServerName == y.ServerName && x.Attributes.Equal(y.Attributes)
	})
}

// keyOf returns a map key for addresses: the same addresses have equal keys, most others have different
// ones.
func keyOf(addresses []resolver.Address) string {
	var key strings.Builder
	for _, a := range inOrder(addresses) {
		key.WriteString(a.Addr)
		key.WriteByte(0)
		key.WriteString(a.ServerName)
		key.WriteByte(0)
	}
	return key.String()
}

// inOrder returns the addresses, sorted.
func inOrder(addresses []resolver.Address) []resolver.Address {
	if len(addresses) < 2 {
		return addresses
	}
	return slices.SortedStableFunc(slices.Values(addresses), func(x, y resolver.Address) int {
		return cmp.Or(strings.Compare(x.Addr, y.Addr), strings.Compare(x.ServerName, y.ServerName))
	})
}

// listing is the removal of an endpoint from the resolver's list, or its return.
type listing struct {
	ep *Endpoint
	health.Change
}

// replaceLocked sets the endpoints. It ignores duplicates and endpoints without an address, keeps
// known and draining endpoints, and drains the removed ones.
func (p *policy) replaceLocked(eps []resolver.Endpoint) (changes []listing) {
	known := make(map[string][]*Endpoint, len(p.all())) // by addresses and server names
	taken := make(map[string]bool, len(p.all()))        // first addresses
	for _, ep := range slices.AppendSeq(slices.Clone(p.all()), maps.Keys(p.drains.timers)) {
		key := keyOf(ep.addresses)
		known[key], taken[ep.address] = append(known[key], ep), true
	}
	listed := make(map[*Endpoint]bool, len(eps))
	now, kept := make([]*Endpoint, 0, len(eps)), make([]resolver.Endpoint, 0, len(eps))
	for _, r := range eps {
		if len(r.Addresses) == 0 {
			continue
		}
		var ep *Endpoint
		key := keyOf(r.Addresses)
		if i := slices.IndexFunc(known[key], func(ep *Endpoint) bool { return same(ep.addresses, r.Addresses) }); i >= 0 {
			ep = known[key][i]
		} else {
			ep = p.newEndpoint(r, taken[r.Addresses[0].Addr])
			known[key], taken[ep.address] = append(known[key], ep), true
		}
		if !listed[ep] {
			listed[ep], now, kept = true, append(now, ep), append(kept, r)
		}
	}
	for _, ep := range p.all() {
		if !listed[ep] {
			changes = append(changes, p.drains.beginLocked(ep))
		}
	}
	for _, ep := range now {
		if ep.removed() {
			changes = append(changes, p.drains.reviveLocked(ep))
		}
	}
	p.endpoints.Store(&now)
	p.options().Monitor.SetEndpoints(now)
	p.weighLocked(kept)
	return changes
}

// newEndpoint returns a new endpoint. Its health is its own, even if another endpoint has the same address:
// endpoints behind a proxy differ in their attributes and share the address of the proxy.
func (p *policy) newEndpoint(r resolver.Endpoint, taken bool) *Endpoint {
	ep, key := newEndpoint(r.Addresses[0].Addr, nil), ""
	if taken {
		key = fmt.Sprintf("%s %p", ep.address, ep)
	}
	ep.entry.Store(p.options().Table.Acquire(key, ep.address))
	ep.addresses, ep.policy = slices.Clone(r.Addresses), p
	ep.list(p.ctx)
	for class := range ep.conns {
		ep.conns[class].Store(&subConn{ep: ep, class: ConnClass(class)})
	}
	p.subscribe(ep)
	if a, ok := p.strategy().(Attacher); ok {
		ep.memory = a.Attach(ep)
	}
	return ep
}

// ResolverError records the error that calls get while there are no endpoints.
func (p *policy) ResolverError(err error) {
	p.mu.Lock()
	if len(p.all()) == 0 {
		p.resolverErr = errors.New(err.Error()) // without a gRPC status, as that of a connection
	}
	p.mu.Unlock()
	p.publish()
}

// UpdateSubConnState is never called: every connection has a listener.
func (*policy) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

// ExitIdle connects the endpoints, at the request of the program.
func (p *policy) ExitIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reconnects.reconnectSoonLocked(1)
}

// Close stops the policy. gRPC closes the connections.
func (p *policy) Close() {
	p.mu.Lock()
	endpoints := slices.Concat(p.all(), p.drains.stopLocked())
	p.endpoints.Store(new([]*Endpoint))
	p.closed = true
	p.options().Monitor.forget(p)
	p.stop()
	for _, ep := range endpoints {
		for _, s := range ep.connections() {
			s.disconnectedLocked()
		}
		ep.unsubscribe()
	}
	p.mu.Unlock()
	p.tasks.Wait()
	for _, ep := range endpoints {
		ep.inflight.stop()
		ep.lifetime.Load().end()
		ep.healthEntry().Release()
	}
}

// note records evidence about an endpoint. If the endpoint says by gRPC's health check that it does
// not serve, only the health check can clear it.
func (p *policy) note(ep *Endpoint, ev health.Evidence) {
	if ep.refuses.Load() && endsStatement(ev.Kind) {
		return
	}
	ep.healthEntry().Note(ev)
}

// served clears an endpoint that completed work begun after its latest change of state.
// Slow endpoints are cleared by probes, which are timed.
func (p *policy) served(ep *Endpoint, start, now time.Time) {
	st := ep.healthEntry().Load()
	switch st.State {
	case health.Serving, health.Slow, health.Draining:
	default:
		if !ep.onlyCallsReadmit() && !start.Before(st.Since) {
			p.note(ep, health.Evidence{Kind: health.Served, At: now, Detail: "completed a call"})
		}
	}
}

// changed handles a change of an endpoint's state, found here or by another client of the
// process.
func (p *policy) changed(ep *Endpoint, c health.Change) {
	if ep.removed() {
		return
	}
	o := p.options()
	ep.expectTest(c)
	o.Events.Changed(ep, c)
	if r, ok := p.strategy().(Restorer); ok && c.To == health.Serving && c.From != health.Unknown {
		r.Restored(ep)
	}
	if c.Improves() {
		p.improved.Store(true)
	}
	if wait := time.Until(ep.Health().WritesFrom); wait > 0 { // also where the endpoint has joined the shared table
		time.AfterFunc(wait, p.publish)
	}
	if c.From.Usable() && !c.To.Usable() {
		p.ejected.Store(true)
	}
	p.publish()
	ep.signal()
	p.prober.investigate(ep)
}
