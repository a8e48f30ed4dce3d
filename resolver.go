package quorate

import (
	"sync"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/observed"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
)

// resolvers returns those for grpc.WithResolvers. If the channel is observed, they are wrapped: Resolvers,
// or without these the registered ones.
func (c Channel) resolvers() []resolver.Builder {
	if c.Observer == nil && c.Report == nil {
		return c.Resolvers
	}
	all := c.Resolvers
	for _, scheme := range []string{"dns", "passthrough", "unix", "static", "etcd", "kubernetes"} {
		if b := resolver.Get(scheme); b != nil && len(c.Resolvers) == 0 {
			all = append(all, b)
		}
	}
	o := &resolverObserver{channel: c, observer: c.Observer}
	if o.observer == nil {
		o.observer = observe.None{}
	}
	wrapped := make([]resolver.Builder, len(all))
	for i, b := range all {
		wrapped[i] = o.builder(b)
	}
	return wrapped
}

// resolverObserver passes the lists and errors of resolvers, and the events of the channels' policies, to an
// observer, and adds the channels to the report.
type resolverObserver struct {
	channel  Channel
	observer observe.Observer // None without one

	mu   sync.Mutex
	open int // resolvers that are not closed
}

// builder returns a builder that does what b does, and is observed.
func (o *resolverObserver) builder(b resolver.Builder) resolver.Builder {
	wrapped := observedBuilder{b, o}
	if authority, ok := b.(resolver.AuthorityOverrider); ok {
		return struct {
			observedBuilder
			resolver.AuthorityOverrider
		}{wrapped, authority}
	}
	return wrapped
}

type observedBuilder struct {
	resolver.Builder
	owner *resolverObserver
}

func (b observedBuilder) Build(target resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	o := b.owner
	conn := &observedConn{
		ClientConn: cc, observer: o.observer, target: target.URL.Redacted(), channel: &o.channel,
		events:    observed.Events(o.channel.Observer, o.channel.Observer, (*balancer.Endpoint).Address, nil),
		inspector: observed.Inspector{Name: (*balancer.Endpoint).Address}, monitor: new(balancer.Monitor),
	}
	o.mu.Lock()
	o.open++ // before Build, which may report endpoints
	o.mu.Unlock()
	r, err := b.Builder.Build(target, conn, opts)
	if err != nil {
		o.closed()
		return nil, err
	}
	built := &observedResolver{Resolver: r, owner: o, detach: introspect.Attach(o.channel.Observer, conn), unlist: func() {}}
	if o.channel.Report != nil {
		built.unlist = o.channel.Report.Add(conn)
	}
	return built, nil
}

type observedResolver struct {
	resolver.Resolver
	owner  *resolverObserver
	detach func() // from the observer
	unlist func() // from the report
	once   sync.Once
}

// Close tells the observer that there are no endpoints any more, if no other channel has some.
func (r *observedResolver) Close() {
	r.Resolver.Close()
	r.once.Do(func() {
		r.detach()
		r.unlist()
		r.owner.closed()
	})
}

func (o *resolverObserver) closed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open--; o.open == 0 {
		o.observer.EndpointsSet(nil)
	}
}

type observedConn struct {
	resolver.ClientConn
	observer observe.Observer
	target   string
	channel  *Channel
	events   balancer.Events // nil without an observer

	inspector observed.Inspector

	mu        sync.Mutex
	monitor   *balancer.Monitor
	endpoints int
	err       error // the latest of the resolver, nil after an update
}

func (c *observedConn) UpdateState(s resolver.State) error {
	names := addresses(s)
	c.mu.Lock()
	c.endpoints, c.err = len(names), nil
	c.observer.EndpointsSet(names)
	c.observer.Resolved(observe.Resolution{Target: c.target, Endpoints: len(names)})
	options := balancer.OptionsOf(s)
	if options.Monitor == nil {
		options.Monitor = c.monitor
	}
	c.monitor = options.Monitor
	if c.events != nil {
		options.Events = c.events
	}
	c.mu.Unlock()
	return c.ClientConn.UpdateState(balancer.WithOptions(s, &options))
}

func (c *observedConn) ReportError(err error) {
	c.mu.Lock()
	c.err = err
	c.observer.Resolved(observe.Resolution{Target: c.target, Endpoints: c.endpoints, Err: err})
	c.mu.Unlock()
	c.ClientConn.ReportError(err)
}

// addresses returns the first address of each endpoint.
func addresses(s resolver.State) []string {
	var all []string
	for _, ep := range s.Endpoints {
		if len(ep.Addresses) > 0 {
			all = append(all, ep.Addresses[0].Addr)
		}
	}
	if s.Endpoints == nil {
		for _, a := range s.Addresses {
			all = append(all, a.Addr)
		}
	}
	return all
}
