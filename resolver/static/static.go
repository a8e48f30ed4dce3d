// Package static is a gRPC resolver of targets that list their endpoints themselves:
//
//	b, err := static.NewBuilder(static.Config{})
//	conn, err := grpc.NewClient("static:///10.0.0.1:8080,10.0.0.2:8080", grpc.WithResolvers(b), …)
//
// It is for services whose endpoints a configuration file names, and for trying things out:
// the channel is balanced, watched and drained as with any other resolver. The list never
// changes; where it should, see packages dns and etcd beside this one, and
// resolver/kubernetes.
package static

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"google.golang.org/grpc/resolver"
)

// DefaultScheme is the scheme of targets.
const DefaultScheme = "static"

// scheme is what gRPC finds in a target (RFC 3986, section 3.1), in lower case.
var scheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)

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

type builder struct{ cfg Config }

func (b builder) Scheme() string { return b.cfg.Scheme }

// Build publishes the endpoints of the target once, or fails with what is wrong with it.
func (b builder) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	eps, err := parse(target.Endpoint())
	if target.URL.Host != "" {
		err = fmt.Errorf("%q stands where an authority would: write three slashes, %s:///HOST:PORT", target.URL.Host, b.cfg.Scheme)
	}
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", target.String(), err)
	}
	// The only error is that of a policy which has no use for the list, and RPCs are told it.
	_ = cc.UpdateState(resolver.State{Endpoints: eps})
	return settled{}, nil
}

// settled is a resolver that has nothing more to say.
type settled struct{}

func (settled) ResolveNow(resolver.ResolveNowOptions) {}
func (settled) Close()                                {}

func parse(list string) ([]resolver.Endpoint, error) {
	if list == "" {
		return nil, errors.New("it lists no endpoint: write HOST:PORT, and more of them after commas")
	}
	var eps []resolver.Endpoint
	seen := map[string]bool{}
	for addr := range strings.SplitSeq(list, ",") {
		host, port, err := net.SplitHostPort(addr)
		if err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("%q is not HOST:PORT (an IPv6 address stands in brackets)", addr)
		}
		if seen[addr] {
			return nil, fmt.Errorf("%s is listed twice", addr)
		}
		seen[addr] = true
		eps = append(eps, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}})
	}
	return eps, nil
}
