package balancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// policy is the policy of one ClientConn, with one strategy.
//
// Its lock guards the endpoints and their connections. An endpoint's state is changed
// without it: what follows from a change takes the lock.
type policy struct {
	cc      balancer.ClientConn
	builder Builder
	classes classes
	opts    atomic.Pointer[Options]

	// Set by the first update, before the first pick:
	strategy Strategy
	learner  Learner // the strategy, if it is one

	mu        sync.Mutex
	config    config
	endpoints []*Endpoint // replaced, never changed
	resolving error       // the resolver's, while it has given no endpoints
	darkSince time.Time   // since when there is no connection for calls, zero if there is one
	closed    bool
	draining  map[*time.Timer]func()
	probes    sync.WaitGroup
	weighted  atomic.Bool // endpoints differ in weight

	ctx  context.Context // ends with the policy
	stop context.CancelFunc
}

var _ balancer.Balancer = (*policy)(nil)

func newPolicy(cc balancer.ClientConn, b Builder) *policy {
	p := &policy{cc: cc, builder: b, draining: make(map[*time.Timer]func())}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.opts.Store(complete(Options{}))
	return p
}

func (p *policy) options() *Options { return p.opts.Load() }

// complete returns the options with their defaults.
func complete(o Options) *Options {
	if o.Table == nil {
		o.Table = health.NewTable()
	}
	if o.Liveness == nil {
		o.Liveness = o.Prober
	}
	if o.Judge == nil {
		o.Judge = func(error) (health.Kind, bool) { return 0, false }
	}
	if o.Fault == nil {
		o.Fault = isFault
	}
	if o.Events == nil {
		o.Events = noEvents{}
	}
	return &o
}

func isFault(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.DataLoss, codes.ResourceExhausted, codes.DeadlineExceeded:
		return true
	default:
		return false
	}
}

type noEvents struct{}

func (noEvents) Picked(*Endpoint, Call)           {}
func (noEvents) Changed(*Endpoint, health.Change) {}
func (noEvents) Reset(*Endpoint, error)           {}

// UpdateClientConnState takes in what the resolver says. Connections to endpoints that
// stay are kept.
func (p *policy) UpdateClientConnState(s balancer.ClientConnState) error {
	p.configure(s)
	endpoints := unique(s.ResolverState.Endpoints)
	removed := p.missing(endpoints)
	for _, ep := range removed {
		p.note(ep, health.Evidence{Kind: health.Removed, At: time.Now()})
	}
	p.mu.Lock()
	p.replace(endpoints)
	p.resolving = nil
	var err error
	if len(endpoints) == 0 {
		p.resolving = errors.New("the resolver found no endpoints")
		err = balancer.ErrBadResolverState
	}
	p.mu.Unlock()
	for _, ep := range removed {
		p.drain(ep)
	}
	p.publish()
	return err
}

func (p *policy) configure(s balancer.ClientConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config = defaultConfig
	if c, ok := s.BalancerConfig.(config); ok {
		p.config = c
	}
	if p.strategy != nil {
		return
	}
	o := optionsOf(s.ResolverState)
	if o.Prober == nil {
		o.Prober = p.config.prober
	}
	p.opts.Store(complete(o))
	p.strategy = p.builder.Build(p.config.strategy)
	p.learner, _ = p.strategy.(Learner)
}

// all returns the endpoints. The slice must not be changed.
func (p *policy) all() []*Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endpoints
}

// unique returns the endpoints that have an address, each once.
func unique(eps []resolver.Endpoint) []resolver.Endpoint {
	seen := make(map[string]bool, len(eps))
	var kept []resolver.Endpoint
	for _, ep := range eps {
		if len(ep.Addresses) == 0 || seen[identity(ep.Addresses)] {
			continue
		}
		seen[identity(ep.Addresses)] = true
		kept = append(kept, ep)
	}
	return kept
}

// identity is what makes two endpoints the same one.
func identity(addrs []resolver.Address) string {
	var id string
	for _, a := range addrs {
		id += a.Addr + "\x00" + a.ServerName + "\x00"
	}
	return id
}

// missing returns the endpoints that are not among eps.
func (p *policy) missing(eps []resolver.Endpoint) []*Endpoint {
	named := make(map[string]bool, len(eps))
	for _, r := range eps {
		named[identity(r.Addresses)] = true
	}
	return slices.DeleteFunc(slices.Clone(p.all()), func(ep *Endpoint) bool { return named[identity(ep.addresses)] })
}

// replace makes eps the endpoints, and keeps those that it knows. It needs the lock.
func (p *policy) replace(eps []resolver.Endpoint) {
	known := make(map[string]*Endpoint, len(p.endpoints))
	for _, ep := range p.endpoints {
		known[identity(ep.addresses)] = ep
	}
	now := make([]*Endpoint, 0, len(eps))
	for _, r := range eps {
		ep := known[identity(r.Addresses)]
		if ep == nil {
			ep = p.newEndpoint(r)
		}
		now = append(now, ep)
	}
	p.endpoints = now
	p.weigh(eps)
}

func (p *policy) newEndpoint(r resolver.Endpoint) *Endpoint {
	ep := &Endpoint{
		address: r.Addresses[0].Addr, addresses: slices.Clone(r.Addresses),
		entry: p.options().Table.Acquire(r.Addresses[0].Addr), policy: p,
	}
	ep.ctx, ep.leave = context.WithCancel(p.ctx)
	for lane := range ep.lines {
		ep.lines[lane] = &line{ep: ep, lane: Lane(lane)}
	}
	if a, ok := p.strategy.(Attacher); ok {
		ep.memory = a.Attach(ep)
	}
	return ep
}

// ResolverError is shown to calls while there are no endpoints to send them to.
func (p *policy) ResolverError(err error) {
	p.mu.Lock()
	if len(p.endpoints) == 0 {
		// Without its status, which would end calls that wait for endpoints.
		p.resolving = fmt.Errorf("%v", err) //nolint:errorlint // it must not be found
	}
	p.mu.Unlock()
	p.publish()
}

// UpdateSubConnState is not called: every connection has a listener.
func (*policy) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

// ExitIdle connects what is not connected and should be.
func (p *policy) ExitIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ep := range p.endpoints {
		if l := ep.lines[Calls]; l.sc != nil && l.state == connectivity.Idle {
			l.sc.Connect()
		}
	}
}

// Close ends everything. gRPC closes the connections.
func (p *policy) Close() {
	p.mu.Lock()
	endpoints, draining := p.endpoints, p.draining
	p.endpoints, p.draining, p.closed = nil, nil, true
	p.stop()
	p.mu.Unlock()
	for timer, end := range draining {
		if timer.Stop() {
			end()
		}
	}
	for _, ep := range endpoints {
		ep.rest()
		ep.leave()
		ep.entry.Release()
	}
	p.probes.Wait()
}

// drain lets what is under way on a removed endpoint go on, for a time.
func (p *policy) drain(ep *Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ep.leave()
	for _, l := range ep.lines {
		l.shut()
	}
	end := func() {
		ep.rest()
		ep.entry.Release()
	}
	if p.closed {
		end()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(p.config.drainTimeout, func() {
		p.mu.Lock() // which also waits until timer is set
		delete(p.draining, timer)
		p.mu.Unlock()
		ep.hangUp(errDrained)
		end()
	})
	p.draining[timer] = end
}

var errDrained = errors.New("the endpoint was removed, and its time to drain is over")

// restores reports whether an endpoint that was shown not to serve may be used again.
func restores(c health.Change) bool {
	usable := rank(health.Suspected, Full)
	return rank(c.From, Full) > usable && rank(c.To, Full) <= usable
}

// note adds to what is known of an endpoint, and does what follows from it.
func (p *policy) note(ep *Endpoint, ev health.Evidence) {
	ep.noting.Lock()
	change := ep.entry.Note(ev)
	if change.From != change.To {
		p.options().Events.Changed(ep, change)
	}
	ep.noting.Unlock()
	if change.From == change.To {
		return
	}
	if f, ok := p.strategy.(Forgiver); ok && restores(change) {
		f.Restored(ep)
	}
	p.publish()
	p.probe(ep, investigate)
	p.askRoles(ep)
}
