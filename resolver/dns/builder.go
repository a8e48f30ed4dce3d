package dns

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/resolver/internal/feed"
)

var logger = grpclog.Component("quorate-dns")

// NewBuilder returns a resolver builder for grpc.WithResolvers. Channels share lookups if they
// have the same builder. It needs no Close: lookups of a name end with the last channel that uses
// them.
//
// The error names the invalid field of cfg.
func NewBuilder(cfg Config) (resolver.Builder, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	return &builder{client: c, registry: newRegistry(c)}, nil
}

type builder struct {
	client   *client
	registry *registry
}

var (
	_ resolver.Builder            = (*builder)(nil)
	_ resolver.AuthorityOverrider = (*builder)(nil)
)

func (b *builder) Scheme() string { return b.client.Scheme }

// OverrideAuthority returns the target's host and port, as gRPC does by default, and the domain
// for SRV records: certificates are not issued for "_grpc._tcp.example.com".
func (*builder) OverrideAuthority(t resolver.Target) string { return authorityOf(t) }

// Build starts to look the target up, or joins lookups of it that are under way. It does not
// block. The error describes an invalid target; gRPC fails calls with it.
func (b *builder) Build(t resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	parsed, err := parseTarget(t)
	if err != nil {
		return nil, err
	}
	if parsed.server == "" {
		parsed.server = b.client.server
	} else if b.client.Resolver != nil {
		return nil, fmt.Errorf("dns: bad target %q: it names a DNS server, but Config.Resolver answers all lookups; leave the server out", t.String())
	}
	if parsed.literal.IsValid() {
		one := []backend{{addrs: []netip.Addr{parsed.literal}}}
		return startChannel(cc, parsed.port, feed.New(update{backends: one}), nil, func() {}), nil
	}
	p := b.registry.Acquire(parsed.question)
	return startChannel(cc, parsed.port, p.Feed, p.resolveNow, func() { b.registry.Release(parsed.question) }), nil
}

// endpoints converts backends. port is the port of those without one.
func endpoints(list []backend, port uint16) []resolver.Endpoint {
	all := make([]resolver.Endpoint, len(list))
	for i, b := range list {
		at := port
		if b.port != 0 {
			at = b.port
			all[i] = b.annotate(all[i])
		}
		for _, a := range b.addrs {
			addr := net.JoinHostPort(a.String(), strconv.Itoa(int(at)))
			all[i].Addresses = append(all[i].Addresses, resolver.Address{Addr: addr})
		}
	}
	return all
}
