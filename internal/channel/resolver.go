package channel

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/endpoint"
)

// scheme is the target scheme of the channel, as in the official client.
const scheme = "etcd-endpoints"

// securityKey is the address attribute for the security of its connections: endpoint.TLS
// or endpoint.Plaintext. The transport credentials use it. The balancer treats attributes
// as part of an endpoint's identity, so it holds nothing that changes with a mere
// renaming.
type securityKey struct{}

// String is shown in gRPC's log.
func (securityKey) String() string { return "security" }

// endpointResolver publishes the current endpoints to one ClientConn.
type endpointResolver struct {
	tls           bool // the client has a TLS configuration
	serviceConfig string
	options       *balancer.Options // nil for the policy's defaults

	mu        sync.Mutex
	endpoints []endpoint.Endpoint
	conn      resolver.ClientConn // nil until grpc builds the resolver, and after it closed it
	config    *serviceconfig.ParseResult
}

func newResolver(eps []endpoint.Endpoint, tls bool, serviceConfig string, options *balancer.Options) *endpointResolver {
	return &endpointResolver{endpoints: eps, tls: tls, serviceConfig: serviceConfig, options: options}
}

func (r *endpointResolver) Scheme() string { return scheme }

// Build is called when the channel leaves idleness, so possibly many times.
func (r *endpointResolver) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn = cc
	r.config = cc.ParseServiceConfig(r.serviceConfig)
	r.publishLocked()
	return &builtResolver{r, cc}, nil
}

// set replaces the endpoints. An empty set is allowed: calls then wait for the
// next one.
func (r *endpointResolver) set(eps []endpoint.Endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endpoints = slices.Clone(eps)
	if r.conn != nil {
		r.publishLocked()
	}
}

// width returns the number of endpoints.
func (r *endpointResolver) width() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.endpoints)
}

// publishLocked passes the state to the channel. The lock keeps updates in order.
func (r *endpointResolver) publishLocked() {
	state := resolver.State{ServiceConfig: r.config}
	for _, ep := range r.endpoints {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{
			Addr:       ep.Address,
			ServerName: ep.ServerName,
			Attributes: attributes.New(securityKey{}, securityOf(ep, r.tls)),
			Metadata:   apiVersion, // attributes do not become headers
		}}})
	}
	if r.options != nil {
		state = balancer.WithOptions(state, r.options)
	}
	// An error means that the policy rejected the state, as it does an empty one. The
	// next set updates it.
	_ = r.conn.UpdateState(state)
}

func securityOf(ep endpoint.Endpoint, configured bool) endpoint.Security {
	if ep.UseTLS(configured) {
		return endpoint.TLS
	}
	return endpoint.Plaintext
}

// apiVersion is the header with the client's API version on every request. It belongs to the
// connection: a call copies no metadata for it.
var apiVersion = &metadata.MD{rpctypes.MetadataClientAPIVersionKey: {version.APIVersion}}

// builtResolver is the result of one Build. Its Close may follow the next Build, which it must not
// undo.
type builtResolver struct {
	*endpointResolver
	built resolver.ClientConn
}

func (r *builtResolver) ResolveNow(resolver.ResolveNowOptions) {}

func (r *builtResolver) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == r.built {
		r.conn = nil
	}
}

// names maps addresses to the configured names of endpoints, without secrets. It keeps names of
// removed endpoints, because work on them may continue for a while.
type names struct {
	byAddress atomic.Pointer[map[string]string]
}

// set adds endpoints. It is not called concurrently.
func (n *names) set(eps []endpoint.Endpoint) {
	next := make(map[string]string, len(eps))
	if known := n.byAddress.Load(); known != nil && len(*known) < maxNames {
		maps.Copy(next, *known)
	}
	for _, ep := range eps {
		next[ep.Address] = ep.String()
	}
	n.byAddress.Store(&next)
}

// shown returns the names of endpoints without secrets, each endpoint once.
func shown(eps []endpoint.Endpoint) []string {
	all := make([]string, 0, len(eps))
	seen := make(map[string]bool, len(eps))
	for _, ep := range eps {
		if !seen[ep.Address] {
			seen[ep.Address] = true
			all = append(all, ep.String())
		}
	}
	return all
}

// maxNames bounds the names that are kept when endpoints change often.
const maxNames = 1000

// of returns the name of an endpoint, "" for nil.
func (n *names) of(ep *balancer.Endpoint) string {
	if ep == nil {
		return ""
	}
	if known := n.byAddress.Load(); known != nil {
		if name, ok := (*known)[ep.Address()]; ok {
			return name
		}
	}
	return ep.Address()
}
