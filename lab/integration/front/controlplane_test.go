package front_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	clusterpb "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointpb "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerpb "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	// These are read as JSON.
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/round_robin/v3"
	localitypb "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/wrr_locality/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	controlplane "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/testpki"
)

// node is what the clients call themselves to the control plane.
const node = "front"

// control is a control plane that knows one service, "greeter".
type control struct {
	address   string
	snapshots cache.SnapshotCache
	cluster   *clusterpb.Cluster
	version   int
	authority *testpki.Authority // of the servers' certificates
}

// startControl starts a control plane that tells clients to use the cluster of the
// documentation, with replacements.
func startControl(t *testing.T, replacements ...string) *control {
	t.Helper()
	c := &control{authority: testpki.New(t, "authority"), cluster: &clusterpb.Cluster{}, snapshots: cache.NewSnapshotCache(true, cache.IDHash{}, nil)}
	read(t, c.cluster, "cluster.json", replacements...)
	ctx, cancel := context.WithCancel(context.Background())
	c.address = grpctest.Serve(t, func(g grpc.ServiceRegistrar) {
		discoverypb.RegisterAggregatedDiscoveryServiceServer(g, controlplane.NewServer(ctx, c.snapshots, nil))
	}, grpc.WaitForHandlers(true)).String()
	t.Cleanup(cancel) // before the server is stopped
	return c
}

// byLocality makes clients choose a zone first, by weight, and lets the policy choose in it.
func (c *control) byLocality(t *testing.T) {
	t.Helper()
	localities, err := anypb.New(&localitypb.WrrLocality{EndpointPickingPolicy: c.cluster.GetLoadBalancingPolicy()})
	require.NoError(t, err)
	c.cluster.LoadBalancingPolicy = &clusterpb.LoadBalancingPolicy{Policies: []*clusterpb.LoadBalancingPolicy_Policy{
		{TypedExtensionConfig: &corepb.TypedExtensionConfig{Name: "localities", TypedConfig: localities}},
	}}
}

// secure makes clients check, over TLS, that a server has a certificate of the authority in
// the configuration of resolver.
func (c *control) secure(t *testing.T) {
	t.Helper()
	c.cluster.TransportSocket = &corepb.TransportSocket{}
	require.NoError(t, protojson.Unmarshal([]byte(`{
		"name": "envoy.transport_sockets.tls",
		"typedConfig": {
			"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
			"commonTlsContext": {"validationContext": {"caCertificateProviderInstance": {"instanceName": "authority"}}}
		}
	}`), c.cluster.GetTransportSocket()))
}

// read reads a resource from a file of JSON.
func read(t *testing.T, into proto.Message, file string, replacements ...string) {
	t.Helper()
	require.NoError(t, protojson.Unmarshal([]byte(documentedConfig(t, file, replacements...)), into))
}

// publish tells clients which servers there are: an address each, by the zone.
func (c *control) publish(t *testing.T, zones map[string][]string) {
	t.Helper()
	listener, route := &listenerpb.Listener{}, &routepb.RouteConfiguration{}
	read(t, listener, "listener.json")
	read(t, route, "route.json")
	c.version++
	snapshot, err := cache.NewSnapshot(strconv.Itoa(c.version), map[resource.Type][]types.Resource{
		resource.ListenerType: {listener},
		resource.RouteType:    {route},
		resource.ClusterType:  {c.cluster},
		resource.EndpointType: {assignment(t, c.cluster.GetName(), zones)},
	})
	require.NoError(t, err)
	require.NoError(t, c.snapshots.SetSnapshot(t.Context(), node, snapshot))
}

func assignment(t *testing.T, cluster string, zones map[string][]string) *endpointpb.ClusterLoadAssignment {
	t.Helper()
	a := &endpointpb.ClusterLoadAssignment{ClusterName: cluster}
	for zone, addresses := range zones {
		locality := &endpointpb.LocalityLbEndpoints{}
		require.NoError(t, protojson.Unmarshal(fmt.Appendf(nil, `{"locality": {"zone": %q}, "loadBalancingWeight": 1}`, zone), locality))
		for _, address := range addresses {
			locality.LbEndpoints = append(locality.LbEndpoints, &endpointpb.LbEndpoint{
				HostIdentifier: &endpointpb.LbEndpoint_Endpoint{Endpoint: &endpointpb.Endpoint{Address: socket(t, address)}},
			})
		}
		a.Endpoints = append(a.Endpoints, locality)
	}
	return a
}

func socket(t *testing.T, address string) *corepb.Address {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	a := &corepb.Address{}
	require.NoError(t, protojson.Unmarshal(fmt.Appendf(nil, `{"socketAddress": {"address": %q, "portValue": %s}}`, host, port), a))
	return a
}

// resolver returns grpc's own, for clients of this control plane.
func (c *control) resolver(t *testing.T) resolver.Builder {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, c.authority.PEM(), 0o600))
	b, err := xds.NewXDSResolverWithConfigForTesting(fmt.Appendf(nil, `{
		"xds_servers": [{"server_uri": %q, "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}],
		"node": {"id": %q},
		"certificate_providers": {"authority": {"plugin_name": "file_watcher", "config": {"ca_certificate_file": %q}}}
	}`, c.address, node, ca))
	require.NoError(t, err)
	return b
}
