package namespace_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/namespace"
)

func TestTimeToLive(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	granted, err := c.Grant(t.Context(), 60)
	require.NoError(t, err)
	l := namespace.NewLease(c, "ns/")
	keys := func() []string {
		resp, err := l.TimeToLive(t.Context(), granted.ID, clientv3.WithAttachedKeys())
		require.NoError(t, err)
		require.Equal(t, granted.ID, resp.ID)
		require.EqualValues(t, 60, resp.GrantedTTL)
		require.NotNil(t, resp.ResponseHeader)
		var names []string
		for _, key := range resp.Keys {
			names = append(names, string(key))
		}
		return names
	}
	require.Empty(t, keys())
	for _, key := range []string{"n", "ns", "ns/", "ns0", "other"} {
		_, err := c.Put(t.Context(), key, "v", clientv3.WithLease(granted.ID))
		require.NoError(t, err)
	}
	require.Empty(t, keys(), "the key that equals the prefix has no name in the namespace")
	for _, key := range []string{"a", "ns/b"} {
		_, err := namespace.NewKV(c, "ns/").Put(t.Context(), key, "v", clientv3.WithLease(granted.ID))
		require.NoError(t, err)
	}
	require.ElementsMatch(t, []string{"a", "ns/b"}, keys())

	resp, err := l.TimeToLive(t.Context(), granted.ID)
	require.NoError(t, err)
	require.Nil(t, resp.Keys, "not asked for")

	leases, err := l.Leases(t.Context())
	require.NoError(t, err)
	require.Equal(t, []clientv3.LeaseStatus{{ID: granted.ID}}, leases.Leases)
	_, err = l.Revoke(t.Context(), granted.ID)
	require.NoError(t, err)
	require.Nil(t, cluster.Get("other"))
	resp, err = l.TimeToLive(t.Context(), granted.ID, clientv3.WithAttachedKeys())
	require.NoError(t, err)
	require.EqualValues(t, -1, resp.TTL)
}

// sharingLease is a Lease that gives the same response to all callers.
type sharingLease struct {
	clientv3.Lease
	resp *clientv3.LeaseTimeToLiveResponse
	err  error
}

func (s sharingLease) TimeToLive(context.Context, clientv3.LeaseID, ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	return s.resp, s.err
}

func TestTimeToLiveSharesNothing(t *testing.T) {
	shared := &clientv3.LeaseTimeToLiveResponse{ID: 1, Keys: [][]byte{[]byte("ns/ns/k"), []byte("x")}}
	l := namespace.NewLease(sharingLease{resp: shared}, "ns/")
	for range 2 {
		resp, err := l.TimeToLive(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, [][]byte{[]byte("ns/k")}, resp.Keys)
	}
	require.Len(t, shared.Keys, 2)

	l = namespace.NewLease(sharingLease{err: rpctypes.ErrPermissionDenied}, "ns/")
	resp, err := l.TimeToLive(t.Context(), 1)
	require.Nil(t, resp)
	require.Equal(t, rpctypes.ErrPermissionDenied, err)
}
