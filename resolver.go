package quorate

import (
	"sync"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/observed"
	"github.com/quorate/quorate/observe"
)

// resolvers returns what the channel needs besides the resolvers that are registered.
func (c Channel) resolvers() []resolver.Builder {
	if c.Observer == nil {
		return c.Resolvers
	}
	all := c.Resolvers
	for _, scheme := range []string{"dns", "passthrough", "unix"} {
		if b := resolver.Get(scheme); b != nil && len(c.Resolvers) == 0 {
			all = append(all, b)
		}
	}
	o := &resolverObserver{observer: c.Observer}
	wrapped := make([]resolver.Builder, len(all))
	for i, b := range all {
		wrapped[i] = o.builder(b)
	}
	return wrapped
}

// resolverObserver tells an observer what resolvers tell channels, and has the channels' policies
// tell it what they do.
type resolverObserver struct {
	observer observe.Observer

	mu   sync.Mutex
	open int // resolvers
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
	conn := &observedConn{
		ClientConn: cc, observer: b.owner.observer, target: target.URL.Redacted(),
		options: &balancer.Options{Events: observed.Events(b.owner.observer, (*balancer.Endpoint).Address, nil)},
	}
	r, err := b.Builder.Build(target, conn, opts)
	if err != nil {
		return nil, err
	}
	b.owner.mu.Lock()
	defer b.owner.mu.Unlock()
	b.owner.open++
	return &observedResolver{Resolver: r, owner: b.owner}, nil
}

type observedResolver struct {
	resolver.Resolver
	owner *resolverObserver
	once  sync.Once
}

// Close tells the observer that there are no endpoints any more, if no other channel has some.
func (r *observedResolver) Close() {
	r.Resolver.Close()
	r.once.Do(func() {
		r.owner.mu.Lock()
		defer r.owner.mu.Unlock()
		if r.owner.open--; r.owner.open == 0 {
			r.owner.observer.EndpointsSet(nil)
		}
	})
}

type observedConn struct {
	resolver.ClientConn
	observer observe.Observer
	target   string
	options  *balancer.Options

	mu        sync.Mutex
	endpoints int
}

func (c *observedConn) UpdateState(s resolver.State) error {
	names := addresses(s)
	c.mu.Lock()
	c.endpoints = len(names)
	c.observer.EndpointsSet(names)
	c.observer.Resolved(observe.Resolution{Target: c.target, Endpoints: len(names)})
	c.mu.Unlock()
	return c.ClientConn.UpdateState(balancer.WithOptions(s, c.options))
}

func (c *observedConn) ReportError(err error) {
	c.mu.Lock()
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
