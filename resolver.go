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
	tap := &tap{observer: c.Observer}
	tapped := make([]resolver.Builder, len(all))
	for i, b := range all {
		tapped[i] = tap.on(b)
	}
	return tapped
}

// tap tells an observer what resolvers tell channels, and has their policies tell it what
// they do.
type tap struct {
	observer observe.Observer

	mu   sync.Mutex
	open int // resolvers
}

// on returns a builder that does what b does.
func (t *tap) on(b resolver.Builder) resolver.Builder {
	tapped := tappedBuilder{b, t}
	if o, ok := b.(resolver.AuthorityOverrider); ok {
		return struct {
			tappedBuilder
			resolver.AuthorityOverrider
		}{tapped, o}
	}
	return tapped
}

type tappedBuilder struct {
	resolver.Builder
	tap *tap
}

func (b tappedBuilder) Build(target resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	tapped := &tappedConn{
		ClientConn: cc, observer: b.tap.observer, target: target.URL.Redacted(),
		options: &balancer.Options{Events: observed.Events(b.tap.observer, (*balancer.Endpoint).Address)},
	}
	r, err := b.Builder.Build(target, tapped, opts)
	if err != nil {
		return nil, err
	}
	b.tap.mu.Lock()
	defer b.tap.mu.Unlock()
	b.tap.open++
	return &tappedResolver{Resolver: r, tap: b.tap}, nil
}

type tappedResolver struct {
	resolver.Resolver
	tap  *tap
	once sync.Once
}

// Close tells the observer that there are no endpoints any more, if no other channel has some.
func (r *tappedResolver) Close() {
	r.Resolver.Close()
	r.once.Do(func() {
		r.tap.mu.Lock()
		defer r.tap.mu.Unlock()
		if r.tap.open--; r.tap.open == 0 {
			r.tap.observer.EndpointsSet(nil)
		}
	})
}

type tappedConn struct {
	resolver.ClientConn
	observer observe.Observer
	target   string
	options  *balancer.Options

	mu        sync.Mutex
	endpoints int
}

func (c *tappedConn) UpdateState(s resolver.State) error {
	names := addresses(s)
	c.mu.Lock()
	c.endpoints = len(names)
	c.observer.EndpointsSet(names)
	c.observer.Resolved(observe.Resolution{Target: c.target, Endpoints: len(names)})
	c.mu.Unlock()
	return c.ClientConn.UpdateState(balancer.WithOptions(s, c.options))
}

func (c *tappedConn) ReportError(err error) {
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
