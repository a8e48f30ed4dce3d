package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/feed"
)

// question identifies the lookups that channels share.
type question struct {
	server string // "host:port" of a DNS server, "" for the system's
	name   string
	srv    bool
}

// what describes the records that are looked up.
func (q question) what() string {
	if q.srv {
		return "SRV records"
	}
	return "addresses"
}

type target struct {
	question
	literal netip.Addr // the address, if it needs no lookup
	port    uint16     // of all backends; 0 if SRV records have the ports
	// authority is the :authority of calls, which certificates are verified against.
	authority string
}

// parseTarget parses the forms that the package comment lists.
func parseTarget(t resolver.Target) (target, error) {
	fail := func(err error) (target, error) {
		return target{}, fmt.Errorf("dns: bad target %q: %w", t.URL.Redacted(), err)
	}
	if t.URL.User != nil && t.URL.Host != "" { // gRPC asks for the host of HTTPS_PROXY with the user of the proxy
		return fail(errors.New("user names are not supported; the form is dns://server:port/host:port"))
	}
	srv := t.URL.RawQuery == "srv"
	if t.URL.RawQuery != "" && !srv || t.URL.Fragment != "" {
		return fail(errors.New("only ?srv may follow, after a name without a port"))
	}
	var server string
	if t.URL.Host != "" {
		var err error
		if server, err = parseServer(t.URL.Host); err != nil {
			return fail(err)
		}
	}
	if t.Endpoint() == "" {
		return fail(errors.New("it names no host; the form is dns:///host:port, with three slashes, or dns://server/host:port"))
	}
	parsed, err := parseEndpoint(t.Endpoint(), srv)
	if err != nil {
		return fail(err)
	}
	parsed.server = server
	return parsed, nil
}

// parseEndpoint parses the part after the server. With srv, any name is one of SRV records.
func parseEndpoint(endpoint string, srv bool) (target, error) {
	host, port, err := splitHostPort(endpoint, defaultPort)
	if err != nil {
		return target{}, err
	}
	if literal, err := netip.ParseAddr(host); err == nil {
		if srv {
			return target{}, fmt.Errorf("%q is an address; ?srv needs a name", endpoint)
		}
		if zone := literal.Zone(); strings.ContainsFunc(zone, func(r rune) bool { return r != '.' && !nameRune(r) }) {
			return target{}, fmt.Errorf("%q is not the name of a network interface", zone)
		}
		return target{literal: literal.Unmap(), port: port, authority: strings.ReplaceAll(endpoint, "%", "%25")}, nil
	}
	if err := checkName(host); err != nil {
		return target{}, err
	}
	host = strings.ToLower(host)
	domain, ok := cutService(host)
	if !ok {
		domain = host
	}
	if !ok && !srv {
		authority := strings.TrimSuffix(strings.Replace(endpoint, ".:", ":", 1), ".")
		if strings.HasPrefix(endpoint, ":") {
			authority = "localhost" + endpoint
		}
		return target{question: question{name: host}, port: port, authority: authority}, nil
	}
	if strings.Contains(endpoint, ":") {
		return target{}, fmt.Errorf("%q is the name of SRV records, which have the ports; remove %q", host, endpoint[strings.LastIndexByte(endpoint, ':'):])
	}
	return target{question: question{name: host, srv: true}, authority: strings.TrimSuffix(domain, ".")}, nil
}

// cutService returns the rest of a name that begins with "_service._proto.".
func cutService(name string) (domain string, ok bool) {
	service, rest, _ := strings.Cut(name, ".")
	proto, domain, _ := strings.Cut(rest, ".")
	ok = len(service) > 1 && service[0] == '_' && len(proto) > 1 && proto[0] == '_' && domain != ""
	return domain, ok
}

// parseServer returns the address of a DNS server with its port.
func parseServer(s string) (string, error) {
	host, port, err := splitHostPort(s, defaultServerPort)
	if err != nil {
		return "", fmt.Errorf("DNS server %q: %w", s, err)
	}
	if _, err := netip.ParseAddr(host); err != nil {
		if err := checkName(host); err != nil {
			return "", fmt.Errorf("DNS server %q: %w", s, err)
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), nil
}

// services looks up port names. Go's own resolver reads them from a file.
var services = &net.Resolver{PreferGo: true}

// splitHostPort parses "host", "host:port", ":port", and IPv6 addresses, with or without brackets
// if there is no port.
func splitHostPort(s string, otherwise uint16) (host string, port uint16, err error) {
	if _, err := netip.ParseAddr(s); err == nil {
		return s, otherwise, nil
	}
	if inner, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inner, "]") {
		inner = strings.TrimSuffix(inner, "]")
		if a, err := netip.ParseAddr(inner); err != nil || !a.Is6() {
			return "", 0, fmt.Errorf("%q is not an IPv6 address", s)
		}
		return inner, otherwise, nil
	}
	if !strings.Contains(s, ":") {
		return s, otherwise, nil
	}
	host, portName, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not host:port; an IPv6 address with a port needs brackets: [::1]:%d", s, otherwise)
	}
	if a, _ := netip.ParseAddr(host); s[0] == '[' && !a.Is6() {
		return "", 0, fmt.Errorf("%q is not an IPv6 address", "["+host+"]")
	}
	if host == "" {
		host = "localhost"
	}
	if portName == "" {
		return "", 0, fmt.Errorf("%q ends with a colon; add a port, or remove the colon for port %d", s, otherwise)
	}
	number, err := services.LookupPort(context.Background(), "tcp", portName)
	if err != nil || number == 0 {
		return "", 0, fmt.Errorf("%q is not a TCP port; it has to be a number from 1 to 65535, or a name in the system's list of services", portName)
	}
	return host, uint16(number), nil
}

// checkName returns an error if name is not a domain name by the rule of package net, which would
// otherwise return "no such host".
func checkName(name string) error {
	if len(strings.TrimSuffix(name, ".")) > 253 {
		return fmt.Errorf("a name of %d bytes is too long; the maximum is 253", len(name))
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		switch {
		case label == "":
			return fmt.Errorf("%q is not a domain name: a label is empty", name)
		case len(label) > 63:
			return fmt.Errorf("%q is not a domain name: a label has more than 63 bytes", name)
		case label[0] == '-' || label[len(label)-1] == '-':
			return fmt.Errorf("%q is not a domain name: the label %q begins or ends with '-'", name, label)
		}
		for _, r := range label {
			if !nameRune(r) {
				return fmt.Errorf("%q is not a domain name: %q is not allowed; international names are written in Punycode", name, r)
			}
		}
	}
	return nil
}

func nameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_'
}

// authorityOf implements OverrideAuthority, which must always return something valid.
func authorityOf(t resolver.Target) string {
	parsed, err := parseTarget(t)
	if err != nil {
		return url.PathEscape(t.Endpoint()) // no call is made
	}
	return parsed.authority
}

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
			// RFC 2782 gives a weight of zero a very small share if others have more; that is the least weight of package balancer.
			all[i] = balancer.SetPriority(balancer.SetWeight(all[i], uint32(b.weight)), uint32(b.priority))
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
