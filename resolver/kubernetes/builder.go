package kubernetes

import (
	"sync"
	"time"

	"google.golang.org/grpc/resolver"
)

// builder makes resolvers, and shares a feed among those of one service.
type builder struct {
	scheme    string
	namespace string
	here      place
	longest   time.Duration
	links     *links

	mu    sync.Mutex
	feeds map[serviceKey]*feed
}

var _ resolver.AuthorityOverrider = (*builder)(nil)

// NewBuilder returns a resolver of Kubernetes services, for grpc.WithResolvers. It reads
// configuration and certificates, and connects to nothing: the first channel does, and the
// last one that closes or becomes idle ends what is left. All channels of a Builder share its
// connection, and those to the same service one watch.
//
// It fails if the configuration is invalid, or if REST is nil and the API server cannot be
// found.
func NewBuilder(cfg Config) (resolver.Builder, error) {
	return newBuilder(cfg, here(), defaultTiming())
}

func newBuilder(cfg Config, around surroundings, t timing) (*builder, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg, err := around.complete(cfg.withDefaults())
	if err != nil {
		return nil, err
	}
	l, err := newLinks(cfg.REST, t)
	if err != nil {
		return nil, err
	}
	return &builder{
		scheme: cfg.Scheme, namespace: cfg.Namespace,
		here: place{zone: cfg.Zone, node: cfg.Node}, longest: cfg.MaxBackoff,
		links: l, feeds: make(map[serviceKey]*feed),
	}, nil
}

// Scheme is that of the targets.
func (b *builder) Scheme() string { return b.scheme }

// OverrideAuthority names the server for TLS and the :authority header, unless
// grpc.WithAuthority does: the service's short DNS name, service.namespace.
func (b *builder) OverrideAuthority(t resolver.Target) string {
	d, err := parseTarget(t, b.namespace)
	if err != nil {
		return t.Endpoint() // Build says what is wrong
	}
	return d.authority()
}

// Build begins to resolve a target. It fails only if the target has no meaning.
func (b *builder) Build(t resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	d, err := parseTarget(t, b.namespace)
	if err != nil {
		return nil, err
	}
	return startResolver(b, d, cc), nil
}

// follow returns the feed of a service. It has to be left.
func (b *builder) follow(service serviceKey) *feed {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.feeds[service]
	if f == nil {
		f = startFeed(service, b.links, b.longest)
		b.feeds[service] = f
	}
	f.users++
	return f
}

// leave ends a feed with its last user.
func (b *builder) leave(f *feed) {
	b.mu.Lock()
	f.users--
	last := f.users == 0
	if last {
		delete(b.feeds, f.service)
	}
	b.mu.Unlock()
	if last {
		f.stop()
	}
}
