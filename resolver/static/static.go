// Package static is a gRPC resolver of targets that list their endpoints themselves:
//
//	b, err := static.NewBuilder(static.Config{})
//	conn, err := grpc.NewClient("static:///10.0.0.1:8080,10.0.0.2:8080", grpc.WithResolvers(b), …)
//
// Use it for endpoints from a configuration file, and for tests: balancing, probing and
// draining work as with any other resolver. The list never changes; for lists that change
// see packages resolver/dns, resolver/etcd and resolver/kubernetes.
//
// # Targets
//
// A target lists endpoints, separated by commas. Each is a host (a name, an IPv4 address, or an
// IPv6 address in brackets) and a port from 1 to 65535, and may have attributes:
//
//	static:///HOST:PORT[;KEY=VALUE]…[,HOST:PORT[;KEY=VALUE]…]…
//	static:///10.0.0.1:8080;weight=2;zone=eu-a,10.0.0.2:8080;zone=eu-b
//
// The attribute "weight" is a whole number from 1 to balancer.MaxWeight, and is set with
// balancer.SetWeight; [Metadata] returns all others. Keys and values can be anything without a
// comma or a semicolon; a key has no "=".
//
// Build refuses any other target, and one that lists an address twice. With TLS each endpoint is
// verified for its own host, unless the credentials or grpc.WithAuthority name another.
package static

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
)

// DefaultScheme is the scheme of targets.
const DefaultScheme = "static"

// weightAttribute is the attribute that is not metadata.
const weightAttribute = "weight"

var (
	// scheme is what gRPC finds in a target (RFC 3986, section 3.1), in lower case.
	scheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)
	// hostname is the form of a host that is not an IP address.
	hostname = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

// Config is how targets are resolved. The zero value is right for most.
type Config struct {
	// Scheme of the targets. Default: [DefaultScheme].
	Scheme string
}

// NewBuilder returns a builder for [grpc.WithResolvers], which may serve any number of
// channels, or an error if the scheme is none that a target can have.
//
// [grpc.WithResolvers]: https://pkg.go.dev/google.golang.org/grpc#WithResolvers
func NewBuilder(cfg Config) (resolver.Builder, error) {
	if cfg.Scheme == "" {
		cfg.Scheme = DefaultScheme
	}
	if !scheme.MatchString(cfg.Scheme) {
		return nil, fmt.Errorf("static: Scheme %q: use lower-case letters, digits, +, - and ., beginning with a letter", cfg.Scheme)
	}
	return builder{cfg}, nil
}

// Metadata returns the attributes of an endpoint that was resolved by this package, except for
// its weight. It is nil for others, and for an endpoint without attributes. It must not be
// changed.
func Metadata(ep resolver.Endpoint) map[string]string {
	md, _ := ep.Attributes.Value(metadataKey{}).(metadata)
	return md
}

type metadataKey struct{}

type metadata map[string]string

// Equal is used by attributes.Attributes.
func (m metadata) Equal(other any) bool {
	o, ok := other.(metadata)
	return ok && maps.Equal(m, o)
}

type builder struct{ cfg Config }

var _ resolver.AuthorityOverrider = builder{}

func (b builder) Scheme() string { return b.cfg.Scheme }

// OverrideAuthority returns the addresses of the target without the attributes.
func (b builder) OverrideAuthority(target resolver.Target) string {
	eps, err := b.parse(target)
	if err != nil {
		return url.PathEscape(target.Endpoint()) // Build says what is wrong
	}
	addrs := make([]string, len(eps))
	for i, ep := range eps {
		addrs[i] = strings.ReplaceAll(ep.Addresses[0].Addr, "%", "%25")
	}
	return strings.Join(addrs, ",")
}

// Build publishes the endpoints of the target once, or fails with what is wrong with it.
func (b builder) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	eps, err := b.parse(target)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", target.URL.Redacted(), err)
	}
	// The only error comes from a policy that rejects the list, and RPCs get it.
	_ = cc.UpdateState(resolver.State{Endpoints: eps})
	return staticResolver{}, nil
}

// staticResolver never updates its channel.
type staticResolver struct{}

func (staticResolver) ResolveNow(resolver.ResolveNowOptions) {}
func (staticResolver) Close()                                {}

func (b builder) parse(target resolver.Target) ([]resolver.Endpoint, error) {
	u := target.URL
	switch {
	case u.User != nil:
		return nil, errors.New(`"@" has no meaning in it`)
	case u.Host != "":
		return nil, fmt.Errorf("%q stands where an authority would: write three slashes, %s:///HOST:PORT", u.Host, b.cfg.Scheme)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New(`"?" and "#" have no meaning in it`)
	case target.Endpoint() == "":
		return nil, errors.New("it lists no endpoint: write HOST:PORT, and more of them after commas")
	}
	var eps []resolver.Endpoint
	seen := map[string]bool{}
	for text := range strings.SplitSeq(target.Endpoint(), ",") {
		ep, err := parseEndpoint(text)
		if err != nil {
			return nil, err
		}
		addr := ep.Addresses[0].Addr
		if seen[addr] {
			return nil, fmt.Errorf("%s is listed twice", addr)
		}
		seen[addr] = true
		eps = append(eps, ep)
	}
	return eps, nil
}

// parseEndpoint parses HOST:PORT[;KEY=VALUE]….
func parseEndpoint(text string) (resolver.Endpoint, error) {
	addr, attributes, hasAttributes := strings.Cut(text, ";")
	if err := checkAddress(addr); err != nil {
		return resolver.Endpoint{}, err
	}
	ep := resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr, ServerName: addr}}}
	if !hasAttributes {
		return ep, nil
	}
	md := metadata{}
	for attribute := range strings.SplitSeq(attributes, ";") {
		key, value, ok := strings.Cut(attribute, "=")
		if !ok || key == "" {
			return resolver.Endpoint{}, fmt.Errorf("%s has the attribute %q, which is not KEY=VALUE", addr, attribute)
		}
		if _, twice := md[key]; twice {
			return resolver.Endpoint{}, fmt.Errorf("%s has the attribute %q twice", addr, key)
		}
		md[key] = value
	}
	if value, weighted := md[weightAttribute]; weighted {
		weight, err := strconv.ParseUint(value, 10, 32)
		if err != nil || weight < 1 || weight > balancer.MaxWeight {
			return resolver.Endpoint{}, fmt.Errorf("%s has the weight %q, which is no whole number from 1 to %d", addr, value, balancer.MaxWeight)
		}
		ep = balancer.SetWeight(ep, uint32(weight))
		delete(md, weightAttribute)
	}
	if len(md) > 0 {
		ep.Attributes = ep.Attributes.WithValue(metadataKey{}, md)
	}
	return ep, nil
}

func checkAddress(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("%q is not HOST:PORT (an IPv6 address stands in brackets)", addr)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case addr[0] == '[' && !ip.Is6():
		return fmt.Errorf("%q has brackets, and %q is no IPv6 address", addr, host)
	case err != nil && !hostname.MatchString(host):
		return fmt.Errorf("%q has the host %q, which is neither a name nor an IP address", addr, host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q has the port %q, which is no number from 1 to 65535", addr, port)
	}
	return nil
}
