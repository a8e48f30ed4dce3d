package namespace_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/namespace"
)

// sharingLease is a Lease that gives the same response to all callers.
type sharingLease struct {
	clientv3.Lease
	resp *clientv3.LeaseTimeToLiveResponse
	err  error
}

func (s sharingLease) TimeToLive(context.Context, clientv3.LeaseID, ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	return s.resp, s.err
}

// TestTimeToLive leaves out what is outside, and the key that equals the prefix, which has no name inside.
func TestTimeToLive(t *testing.T) {
	shared := &clientv3.LeaseTimeToLiveResponse{ID: 1, Keys: [][]byte{[]byte("ns/ns/k"), []byte("ns/"), []byte("ns0"), []byte("x")}}
	l := namespace.NewLease(sharingLease{resp: shared}, "ns/")
	for range 2 {
		resp, err := l.TimeToLive(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, [][]byte{[]byte("ns/k")}, resp.Keys)
	}
	require.Len(t, shared.Keys, 4)

	l = namespace.NewLease(sharingLease{err: rpctypes.ErrPermissionDenied}, "ns/")
	resp, err := l.TimeToLive(t.Context(), 1)
	require.Nil(t, resp)
	require.Equal(t, rpctypes.ErrPermissionDenied, err)
}
