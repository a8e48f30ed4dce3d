package kubernetes

import (
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/lastgood"
)

// maxListAge is how long the last list of a service is kept after its last channel closed or
// went idle: long enough for channels that go idle after half an hour, as they do by default.
const maxListAge = time.Hour

// builder builds resolvers. Those of one service share a source.
type builder struct {
	cfg     Config
	links   *links
	sources *lastgood.Registry[serviceKey, *source, memory]
}

var _ resolver.AuthorityOverrider = (*builder)(nil)

// NewBuilder returns a resolver builder for Kubernetes services, for grpc.WithResolvers. It reads
// configuration and certificates, but does not connect: the first channel does, and the last one
// that closes or becomes idle closes the connection. All channels of a builder share its
// connection, and those to the same service share one watch. The list of a service is kept for an
// hour after its last channel: the next one gets it if the API server does not answer within 0.3 s.
//
// It fails if the configuration is invalid, or if REST is nil and no API server is configured.
func NewBuilder(cfg Config) (resolver.Builder, error) {
	return newBuilder(cfg, currentEnvironment(), defaultTiming())
}

// RegisterInCluster registers a resolver with the zero Config in gRPC, for all channels of the
// program. Call it before the first channel is created. The error is NewBuilder's. For another
// Config, pass the result of NewBuilder to grpc.WithResolvers or resolver.Register.
func RegisterInCluster() error {
	b, err := NewBuilder(Config{})
	if err != nil {
		return err
	}
	resolver.Register(b)
	return nil
}

func newBuilder(cfg Config, env podEnvironment, t timing) (*builder, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg, err := env.complete(cfg.withDefaults())
	if err != nil {
		return nil, err
	}
	l, err := newLinks(cfg.REST, t)
	if err != nil {
		return nil, err
	}
	return &builder{
		cfg: cfg, links: l,
		sources: lastgood.NewRegistry(maxListAge, func(service serviceKey, last memory, _ bool) *source {
			s := newSource(service, cfg, l, last)
			go s.run(s.ctx)
			return s
		}),
	}, nil
}

// Scheme returns the scheme of the targets.
func (b *builder) Scheme() string { return b.cfg.Scheme }

// OverrideAuthority returns the server name for TLS and the :authority header, unless
// grpc.WithAuthority is set: the service's short DNS name, service.namespace.
func (b *builder) OverrideAuthority(t resolver.Target) string {
	d, err := parseTarget(t, b.cfg.Namespace)
	if err != nil {
		return t.Endpoint() // Build returns the error
	}
	return d.authority()
}

// Build starts to resolve a target. It fails only if the target is invalid. Close of the resolver
// returns when its goroutines have ended.
func (b *builder) Build(t resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	d, err := parseTarget(t, b.cfg.Namespace)
	if err != nil {
		return nil, err
	}
	s := b.sources.Acquire(d.service)
	l := s.listing(d)
	return l.Resolve(cc, nil, func() {
		l.leave()
		b.sources.Release(d.service)
		if s.ctx.Err() != nil { // it was the last channel
			<-s.done
		}
	}), nil
}
