package resolver

import (
	"cmp"
	"errors"
	"hash/maphash"
	"slices"

	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/resolver/etcd"
)

// NewBuilder returns a resolver builder for targets with the scheme "etcd", for
// grpc.WithResolvers. The client must stay open for as long as channels use it.
// The error says that there is no client.
//
// It does what etcd.NewBuilder does, but for the order of the endpoints, and that it delays no
// removal.
func NewBuilder(client *clientv3.Client) (gresolver.Builder, error) {
	if client == nil {
		return nil, errors.New("resolver: the client is nil")
	}
	b, err := etcd.NewBuilder(client, etcd.Config{MassRemovalDelay: -1})
	if err != nil {
		return nil, err
	}
	return builder{b}, nil
}

type builder struct{ gresolver.Builder }

// Build begins to follow the endpoints of a target; it does not wait for etcd. The
// error has codes.InvalidArgument: the target names no service.
func (b builder) Build(target gresolver.Target, cc gresolver.ClientConn, opts gresolver.BuildOptions) (gresolver.Resolver, error) {
	return b.Builder.Build(target, spread{cc, maphash.MakeSeed()}, opts)
}

// spread is a channel that gets endpoints in an order that is another one for each channel,
// so that those that use the first do not all use the same, and does not change with what
// is registered.
type spread struct {
	gresolver.ClientConn
	order maphash.Seed
}

// UpdateState passes the state on.
func (s spread) UpdateState(state gresolver.State) error {
	state.Endpoints = slices.SortedFunc(slices.Values(state.Endpoints), func(a, b gresolver.Endpoint) int {
		return cmp.Compare(maphash.String(s.order, etcd.Key(a)), maphash.String(s.order, etcd.Key(b)))
	})
	return s.ClientConn.UpdateState(state)
}
