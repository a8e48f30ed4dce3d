package registration_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	official "go.etcd.io/etcd/client/v3/naming/endpoints"
	officialresolver "go.etcd.io/etcd/client/v3/naming/resolver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/resolver/etcd"
)

// Programs with the official client find what is registered here, and the other way round.
func TestOfficialClient(t *testing.T) {
	const name = "official"
	ours, theirs := connect(t), labtest.Official(t, cluster.Endpoints()...)
	manager, err := official.NewManager(theirs, name)
	require.NoError(t, err)
	_, a := serve(t)
	_, b := serve(t)

	r := register(t, ours, etcd.Registration{
		Service: name, Address: a, AdditionalAddresses: []string{"[::1]:1"}, Weight: 3, Metadata: map[string]any{"zone": "a"},
	})
	all, err := manager.List(labtest.Context(t))
	require.NoError(t, err)
	require.Equal(t, official.Key2EndpointMap{
		name + "/" + a: {Addr: a, Metadata: map[string]any{"zone": "a", "weight": 3.0, "additionalAddresses": []any{"[::1]:1"}}},
	}, all)
	builder, err := officialresolver.NewBuilder(theirs)
	require.NoError(t, err)
	conn, err := grpc.NewClient("etcd:///"+name, grpc.WithResolvers(builder),
		grpc.WithDefaultServiceConfig(policy), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	callUntilOnly(t, conn, a)

	// What the official client writes is what this package writes.
	require.NoError(t, manager.AddEndpoint(labtest.Context(t), name+"/"+b, official.Endpoint{Addr: b, Metadata: []string{"of", "theirs"}}))
	callUntilOnly(t, dial(t, ours, name), a, b)
	written, err := ours.Get(labtest.Context(t), name+"/"+b)
	require.NoError(t, err)
	require.NoError(t, r.Withdraw(labtest.Context(t)))
	register(t, ours, etcd.Registration{Service: name, Address: b, Metadata: []string{"of", "theirs"}})
	again, err := ours.Get(labtest.Context(t), name+"/"+b)
	require.NoError(t, err)
	require.Equal(t, string(written.Kvs[0].Value), string(again.Kvs[0].Value))
}
