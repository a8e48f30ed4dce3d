// Package resolve follows what a target resolves to, and the health of the endpoints.
package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/internal/endpoint"
)

// Update is an update of a resolver.
type Update struct {
	At time.Time
	// Endpoints are all that there are, in order of their first addresses.
	Endpoints []resolver.Endpoint
	// Err is what the resolver reports in place of endpoints; those that it published last
	// are still used then.
	Err error
}

// Names returns the names that the endpoints have in changes of their states.
func (u Update) Names() map[string]bool {
	names := make(map[string]bool, len(u.Endpoints))
	for _, ep := range u.Endpoints {
		names[name(ep)] = true
	}
	return names
}

// Follow resolves a target until ctx ends, and calls notify with each update, perhaps concurrently. It returns the
// resolver's error if it refuses the target, and ctx's cause otherwise.
func Follow(ctx context.Context, b resolver.Builder, target string, notify func(Update)) error {
	u, err := url.Parse(target)
	if err != nil {
		return fmt.Errorf("target %q is no URL", endpoint.Redact(target))
	}
	r, err := b.Build(resolver.Target{URL: *u}, listener{notify}, resolver.BuildOptions{DialCreds: insecure.NewCredentials()})
	if err != nil {
		return err
	}
	<-ctx.Done()
	r.Close()
	return context.Cause(ctx)
}

// listener is a channel that only listens to its resolver.
type listener struct{ notify func(Update) }

var _ resolver.ClientConn = listener{}

func (l listener) update(u Update) {
	u.At = time.Now()
	l.notify(u)
}

// UpdateState passes on the endpoints.
func (l listener) UpdateState(s resolver.State) error {
	eps := slices.Clone(s.Endpoints)
	if len(eps) == 0 {
		for _, a := range s.Addresses {
			eps = append(eps, resolver.Endpoint{Addresses: []resolver.Address{a}, Attributes: a.BalancerAttributes}) //nolint:staticcheck // what older resolvers use
		}
	}
	eps = slices.DeleteFunc(eps, func(ep resolver.Endpoint) bool { return len(ep.Addresses) == 0 })
	slices.SortStableFunc(eps, func(a, b resolver.Endpoint) int { return strings.Compare(name(a), name(b)) })
	l.update(Update{Endpoints: eps})
	return nil
}

// ReportError passes on the error.
func (l listener) ReportError(err error) {
	if err == nil {
		err = errors.New("the resolver reports an error, and does not say which")
	}
	l.update(Update{Err: err})
}

// NewAddress is the deprecated way in which resolvers publish addresses.
func (l listener) NewAddress(addrs []resolver.Address) {
	_ = l.UpdateState(resolver.State{Addresses: addrs})
}

// ParseServiceConfig ignores service configs: they do not change where a target leads.
func (listener) ParseServiceConfig(string) *serviceconfig.ParseResult {
	return &serviceconfig.ParseResult{}
}

// name returns the name of an endpoint: its addresses.
func name(ep resolver.Endpoint) string {
	addrs := make([]string, len(ep.Addresses))
	for i, a := range ep.Addresses {
		addrs[i] = a.Addr
	}
	return strings.Join(addrs, " | ")
}
