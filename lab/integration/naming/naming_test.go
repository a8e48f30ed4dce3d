package naming_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	official "go.etcd.io/etcd/client/v3/naming/endpoints"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/clientv3/naming/resolver"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func dial(t *testing.T, client *clientv3.Client, service string) *grpc.ClientConn {
	t.Helper()
	b, err := resolver.NewBuilder(client)
	require.NoError(t, err)
	conn, err := grpc.NewClient("etcd:///"+service, grpc.WithResolvers(b),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask makes a call and returns the address of the server that answered.
func ask(t *testing.T, ctx context.Context, conn *grpc.ClientConn) string {
	t.Helper()
	address, err := grpctest.Ask(ctx, conn, grpc.WaitForReady(true))
	require.NoError(t, err)
	return address
}

// askUntil makes calls until the server answers, and says which others may.
func askUntil(t *testing.T, conn *grpc.ClientConn, server string, others ...string) {
	t.Helper()
	for ctx := labtest.Context(t); ; {
		addr := ask(t, ctx, conn)
		if addr == server {
			return
		}
		require.Contains(t, others, addr)
	}
}

// While etcd cannot be reached, a server leaves, another comes, and the history is
// compacted. Calls go on meanwhile, and find the new server afterwards.
func TestResolverOutlivesAnOutage(t *testing.T) {
	const service = "outage"
	client, behind := connect(t), connectPastTheLink(t)
	manager, err := endpoints.NewManager(behind, service)
	require.NoError(t, err)
	before, after := grpctest.ServeHealth(t), grpctest.ServeHealth(t)
	require.NoError(t, manager.AddEndpoint(labtest.Context(t), service+"/before", endpoints.Endpoint{Addr: before}))
	conn := dial(t, client, service)
	askUntil(t, conn, before)

	link := cluster.ClientLink(cluster.Members()[0])
	link.Cut()
	require.NoError(t, manager.DeleteEndpoint(labtest.Context(t), service+"/before"))
	require.NoError(t, manager.AddEndpoint(labtest.Context(t), service+"/after", endpoints.Endpoint{Addr: after}))
	resp, err := behind.Get(labtest.Context(t), "any")
	require.NoError(t, err)
	_, err = behind.Compact(labtest.Context(t), resp.Header.Revision)
	require.NoError(t, err)
	for range 20 {
		require.Equal(t, before, ask(t, labtest.Context(t), conn), "it keeps what it knows")
	}
	link.Heal()
	askUntil(t, conn, after, before)
}

// An endpoint goes with the lease of its server.
func TestEndpointGoesWithItsLease(t *testing.T) {
	const service = "leased"
	client := connect(t)
	manager, err := endpoints.NewManager(client, service)
	require.NoError(t, err)
	changes, err := manager.NewWatchChannel(labtest.Context(t))
	require.NoError(t, err)
	lease, err := client.Grant(labtest.Context(t), 60)
	require.NoError(t, err)
	require.NoError(t, manager.AddEndpoint(labtest.Context(t), service+"/a", endpoints.Endpoint{Addr: "a"}, clientv3.WithLease(lease.ID)))
	require.Equal(t, []*endpoints.Update{
		{Op: endpoints.Add, Key: service + "/a", Endpoint: endpoints.Endpoint{Addr: "a"}},
	}, <-changes)
	_, err = client.Revoke(labtest.Context(t), lease.ID)
	require.NoError(t, err)
	require.Equal(t, []*endpoints.Update{{Op: endpoints.Delete, Key: service + "/a"}}, <-changes)
}

// Programs with the official client and with this one find each other.
func TestSharedWithTheOfficialClient(t *testing.T) {
	const service = "shared"
	their, err := official.NewManager(labtest.Official(t, cluster.Endpoints()...), service)
	require.NoError(t, err)
	our, err := endpoints.NewManager(connect(t), service)
	require.NoError(t, err)

	metadata := map[string]any{"zone": "a", "weight": 3.0}
	require.NoError(t, their.AddEndpoint(labtest.Context(t), service+"/theirs", official.Endpoint{Addr: "1", Metadata: metadata}))
	require.NoError(t, our.AddEndpoint(labtest.Context(t), service+"/ours", endpoints.Endpoint{Addr: "2", Metadata: metadata}))
	ourList, err := our.List(labtest.Context(t))
	require.NoError(t, err)
	require.Equal(t, endpoints.Key2EndpointMap{
		service + "/theirs": {Addr: "1", Metadata: metadata}, service + "/ours": {Addr: "2", Metadata: metadata},
	}, ourList)
	theirList, err := their.List(labtest.Context(t))
	require.NoError(t, err)
	require.Len(t, theirList, len(ourList))
	for key, e := range theirList {
		require.Equal(t, ourList[key], endpoints.Endpoint(e))
	}
}
