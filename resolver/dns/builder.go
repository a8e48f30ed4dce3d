package dns

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/feed"
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
	ported := portedConn{cc, parsed.port}
	if parsed.literal.IsValid() {
		state := feed.State{Endpoints: endpoints([]backend{{addrs: []netip.Addr{parsed.literal}}})}
		return feed.New(new(sync.Mutex), func() feed.State { return state }).Resolve(ported, nil, func() {}), nil
	}
	p := b.registry.Acquire(parsed.question)
	return p.Resolve(ported, p.resolveNow, func() { b.registry.Release(parsed.question) }), nil
}

// endpoints converts backends. Their addresses have a port if they are from SRV records.
func endpoints(list []backend) []resolver.Endpoint {
	all := make([]resolver.Endpoint, len(list))
	for i, b := range list {
		if b.port != 0 {
			all[i] = b.annotate(all[i])
		}
		for _, a := range b.addrs {
			addr := a.String()
			if b.port != 0 {
				addr = hostPort(addr, b.port)
			}
			all[i].Addresses = append(all[i].Addresses, resolver.Address{Addr: addr})
		}
	}
	return all
}

func hostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// portedConn is a channel whose target has a port, which is that of all backends; 0 if SRV records
// have the ports.
type portedConn struct {
	resolver.ClientConn
	port uint16
}

// UpdateState passes the state on with the port.
func (c portedConn) UpdateState(s resolver.State) error {
	if c.port == 0 {
		return c.ClientConn.UpdateState(s)
	}
	s.Endpoints = slices.Clone(s.Endpoints)
	for i, e := range s.Endpoints {
		addresses := slices.Clone(e.Addresses)
		for j, a := range addresses {
			addresses[j].Addr = hostPort(a.Addr, c.port)
		}
		s.Endpoints[i].Addresses = addresses
	}
	return c.ClientConn.UpdateState(s)
}
