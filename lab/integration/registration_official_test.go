package integration_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	official "go.etcd.io/etcd/client/v3/naming/endpoints"
	officialresolver "go.etcd.io/etcd/client/v3/naming/resolver"

	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/resolver/etcd"
)

// Programs with the official client find what is registered here, and the other way round.
func TestServicesAreShared(t *testing.T) {
	const name = "official"
	ours, theirs := connect(t), labtest.Official(t, cluster.Endpoints()...)
	theirManager, err := official.NewManager(theirs, name)
	require.NoError(t, err)
	ourManager, err := endpoints.NewManager(ours, name)
	require.NoError(t, err)
	a, b := grpctest.ServeHealth(t), grpctest.ServeHealth(t)

	r := register(t, ours, etcd.Registration{
		Service: name, Address: a, AdditionalAddresses: []string{"[::1]:1"}, Weight: 3, Metadata: map[string]any{"zone": "a"},
	})
	want := endpoints.Endpoint{Addr: a, Metadata: map[string]any{"zone": "a", "weight": 3.0, "additionalAddresses": []any{"[::1]:1"}}}
	theirList, err := theirManager.List(labtest.Context(t))
	require.NoError(t, err)
	require.Equal(t, official.Key2EndpointMap{name + "/" + a: official.Endpoint(want)}, theirList)
	ourList, err := ourManager.List(labtest.Context(t))
	require.NoError(t, err)
	require.Equal(t, endpoints.Key2EndpointMap{name + "/" + a: want}, ourList)
	builder, err := officialresolver.NewBuilder(theirs)
	require.NoError(t, err)
	callUntilOnly(t, dialWith(t, "etcd:///"+name, "quorate_round_robin", builder), a)

	// The official client writes the same as our manager and as resolver/etcd.
	require.NoError(t, theirManager.AddEndpoint(labtest.Context(t), name+"/"+b, official.Endpoint{Addr: b, Metadata: []string{"of", "theirs"}}))
	callUntilOnly(t, dial(t, ours, name), a, b)
	value := func() string {
		resp, err := ours.Get(labtest.Context(t), name+"/"+b)
		require.NoError(t, err)
		return string(resp.Kvs[0].Value)
	}
	written := value()
	require.NoError(t, ourManager.AddEndpoint(labtest.Context(t), name+"/"+b, endpoints.Endpoint{Addr: b, Metadata: []string{"of", "theirs"}}))
	require.Equal(t, written, value())
	require.NoError(t, r.Withdraw(labtest.Context(t)))
	register(t, ours, etcd.Registration{Service: name, Address: b, Metadata: []string{"of", "theirs"}})
	require.Equal(t, written, value())
}
