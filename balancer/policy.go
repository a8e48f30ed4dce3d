package balancer

import (
	"context"
	"errors"
	"fmt"
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
	budget  budget
	terms   terms
	opts    atomic.Pointer[Options]
	chosen  atomic.Pointer[Strategy] // nil before the first update
	latest  atomic.Pointer[picker]   // nil before the first
	// improved is set when an endpoint can serve more than before, and ejected when one no longer
	// serves calls of every kind, until it is published.
	improved, ejected atomic.Bool

	mu          sync.Mutex
	config      config
	given       *Options    // the resolver's, without the probe of a service config; nil before the first update
	endpoints   []*Endpoint // replaced, never changed
	resolving   error       // the resolver's error, while there are no endpoints
	seconds     seconds     // connections beside silent ones
	turns       turns       // of endpoints to be tried, while there is no connection for calls
	proofDue    time.Time   // until when writes wait for proof, zero before the first
	proven      bool        // an endpoint has shown that it serves
	nextPublish time.Time   // when the pause after the latest picker ends
	publishing  bool        // a picker follows at the end of the pause
	closed      bool
	draining    map[*time.Timer]func()
	tasks       sync.WaitGroup
	weighted    atomic.Bool // endpoints differ in weight
	heavy       atomic.Bool // streams have connections of their own

	ctx  context.Context // ends with the policy
	stop context.CancelFunc
}

var _ balancer.Balancer = (*policy)(nil)

func newPolicy(cc balancer.ClientConn, b Builder) *policy {
	p := &policy{cc: cc, builder: b, draining: make(map[*time.Timer]func())}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.opts.Store(Options{}.withDefaults())
	return p
}

func (p *policy) options() *Options { return p.opts.Load() }

// strategy returns nil before the first update, and so before the first pick.
func (p *policy) strategy() Strategy {
	if s := p.chosen.Load(); s != nil {
		return *s
	}
	return nil
}

// UpdateClientConnState applies the resolver's update. Endpoints that stay keep their
// connections.
func (p *policy) UpdateClientConnState(s balancer.ClientConnState) error {
	p.configure(s)
	p.mu.Lock()
	removed := p.replace(s.ResolverState.Endpoints)
	p.resolving = nil
	var err error
	if len(p.endpoints) == 0 {
		p.resolving = errors.New("the resolver found no endpoints")
		err = balancer.ErrBadResolverState
	}
	p.mu.Unlock()
	for _, ep := range removed {
		p.drain(ep)
	}
	p.publish()
	p.joinConnected()
	for _, ep := range p.all() {
		if ep.Ready() {
			p.readmitUnprobed(ep, time.Now(), "there are no probes any more")
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
		p.given = optionsOf(s.ResolverState).withDefaults()
	}
	o := *p.given
	if o.Service == nil {
		o.Service = p.config.prober
	}
	p.opts.Store(o.withDefaults())
	if p.strategy() == nil || !reflect.DeepEqual(p.config.strategy, was.strategy) {
		strategy := p.builder.Build(p.config.strategy)
		p.chosen.Store(&strategy)
	}
}

// all returns the endpoints. The slice must not be changed.
func (p *policy) all() []*Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endpoints
}

// same reports whether two endpoints are the same one: they have the same addresses, server
// names and attributes, which hold the security of an address.
func same(a, b []resolver.Address) bool {
	return slices.EqualFunc(a, b, func(x, y resolver.Address) bool {
		return x.Addr == y.Addr && x.ServerName == y.ServerName && x.Attributes.Equal(y.Attributes)
	})
}

// keyOf returns a key that is equal for addresses that are the same, and different for most others.
func keyOf(addresses []resolver.Address) string {
	var key strings.Builder
	for _, a := range addresses {
		key.WriteString(a.Addr)
		key.WriteByte(0)
		key.WriteString(a.ServerName)
		key.WriteByte(0)
	}
	return key.String()
}

// replace sets the endpoints that have an address, each once, keeps known ones, and returns
// the removed ones. It needs the lock.
func (p *policy) replace(eps []resolver.Endpoint) (removed []*Endpoint) {
	known := make(map[string][]*Endpoint, len(p.endpoints)) // by addresses and server names
	for _, ep := range p.endpoints {
		key := keyOf(ep.addresses)
		known[key] = append(known[key], ep)
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
			ep = p.newEndpoint(r)
			known[key] = append(known[key], ep)
		}
		if !listed[ep] {
			listed[ep], now, kept = true, append(now, ep), append(kept, r)
		}
	}
	removed = slices.DeleteFunc(slices.Clone(p.endpoints), func(ep *Endpoint) bool { return listed[ep] })
	p.endpoints = now
	p.options().Monitor.SetEndpoints(now)
	p.weigh(kept)
	return removed
}

func (p *policy) newEndpoint(r resolver.Endpoint) *Endpoint {
	address := r.Addresses[0].Addr
	ep := newEndpoint(address, p.options().Table.Acquire("", address))
	ep.addresses, ep.policy = slices.Clone(r.Addresses), p
	ep.ctx, ep.remove = context.WithCancel(p.ctx)
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
	if len(p.endpoints) == 0 {
		// Drop the gRPC status: it would fail calls that wait for endpoints.
		p.resolving = fmt.Errorf("%v", err) //nolint:errorlint // the status must not be unwrapped
	}
	p.mu.Unlock()
	p.publish()
}

// UpdateSubConnState is never called: every connection has a listener.
func (*policy) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

// ExitIdle connects the endpoints: the program asks for it.
func (p *policy) ExitIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reconnectSoon(1)
}

// Close stops the policy. gRPC closes the connections.
func (p *policy) Close() {
	p.mu.Lock()
	endpoints, draining := p.endpoints, p.draining
	p.endpoints, p.draining, p.closed = nil, nil, true
	p.options().Monitor.forget(p)
	p.stop()
	for _, ep := range endpoints {
		for _, s := range ep.connections() {
			s.disconnected()
		}
		ep.unsubscribe()
	}
	p.mu.Unlock()
	for timer, end := range draining {
		if timer.Stop() {
			end()
		}
	}
	p.tasks.Wait()
	for _, ep := range endpoints {
		ep.inflight.stop()
		ep.remove()
		ep.known().Release()
	}
}

// errDrained ends the remaining work on a removed endpoint.
var errDrained = errors.New("the endpoint was removed, and its drain timeout is over")

// drain lets in-flight work on a removed endpoint finish within the drain timeout. Bulk
// transfers are not interrupted.
func (p *policy) drain(ep *Endpoint) {
	removal := health.Change{
		Endpoint: ep.address, From: ep.State(), To: health.Draining,
		Evidence: health.Evidence{Kind: health.Removed, At: time.Now()},
	}
	p.mu.Lock()
	ep.remove()
	ep.unsubscribe()
	for _, s := range ep.connections() {
		s.shut()
	}
	end := func() {
		ep.inflight.stop()
		ep.known().Release()
	}
	if p.closed {
		p.mu.Unlock()
		end()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(p.config.drainTimeout, func() {
		p.mu.Lock() // which also waits until timer is set
		delete(p.draining, timer)
		p.mu.Unlock()
		p.close(ep.conn(Calls), errDrained)
		p.close(ep.conn(Streams), errDrained)
		p.options().Events.Closed(ep, errDrained)
		end()
	})
	p.draining[timer] = end
	p.mu.Unlock()
	p.options().Events.Changed(ep, removal)
}

// note records evidence about an endpoint.
func (p *policy) note(ep *Endpoint, ev health.Evidence) { ep.known().Note(ev) }

// served clears an endpoint that completed work begun after its latest change of state.
// Slow endpoints are cleared by probes, which are timed.
func (p *policy) served(ep *Endpoint, start, now time.Time) {
	st := ep.known().Load()
	switch st.State {
	case health.Serving, health.Slow, health.Draining:
	default:
		if !start.Before(st.Since) {
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
	o.Events.Changed(ep, c)
	if f, ok := p.strategy().(Forgiver); ok && c.To == health.Serving && c.From != health.Unknown {
		f.Restored(ep)
	}
	if c.Improves() {
		p.improved.Store(true)
		if wait := time.Until(ep.Health().WritesFrom); wait > 0 {
			time.AfterFunc(wait, p.publish)
		}
	}
	if c.From.Usable() && !c.To.Usable() {
		p.ejected.Store(true)
	}
	p.publish()
	ep.signal()
	p.investigate(ep)
}

// wantsRoles reports whether the strategy needs roles and there is a status probe.
func (p *policy) wantsRoles() bool {
	_, ok := p.strategy().(RoleAware)
	return ok && p.options().Status != nil
}

// askRoles requests the status of the endpoints, if the strategy needs roles. Unusable
// endpoints are probed when they reconnect or when a later term appears.
func (p *policy) askRoles() {
	if !p.wantsRoles() {
		return
	}
	for _, ep := range p.all() {
		if ep.State().Usable() {
			p.ask(ep.conn(Calls), forStatus, nil)
		}
	}
}
