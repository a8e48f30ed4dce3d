package resolver

import (
	"cmp"
	"hash/maphash"
	"slices"

	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/resolver/etcd"
)

// NewBuilder returns a resolver builder for targets with the scheme "etcd", for
// grpc.WithResolvers. The client must stay open for as long as channels use it.
// It fails if the client is nil.
//
// It is etcd.NewBuilder with another order of endpoints and without a delay of removals.
func NewBuilder(client *clientv3.Client) (gresolver.Builder, error) {
	b, err := etcd.NewBuilder(client, etcd.Config{MassRemovalDelay: -1})
	if err != nil {
		return nil, err
	}
	return builder{b}, nil
}

type builder struct{ gresolver.Builder }

// Build starts to follow the endpoints of a target and does not block. Its error has
// codes.InvalidArgument if the target names no service.
func (b builder) Build(target gresolver.Target, cc gresolver.ClientConn, opts gresolver.BuildOptions) (gresolver.Resolver, error) {
	return b.Builder.Build(target, spread{cc, maphash.MakeSeed()}, opts)
}

// spread passes endpoints to a channel in a random order that is fixed for the channel, so
// that channels which use the first endpoint are spread over all endpoints.
type spread struct {
	gresolver.ClientConn
	order maphash.Seed
}

// UpdateState sorts the endpoints and passes the state on.
func (s spread) UpdateState(state gresolver.State) error {
	state.Endpoints = slices.SortedFunc(slices.Values(state.Endpoints), func(a, b gresolver.Endpoint) int {
		return cmp.Compare(maphash.String(s.order, etcd.Key(a)), maphash.String(s.order, etcd.Key(b)))
	})
	return s.ClientConn.UpdateState(state)
}
