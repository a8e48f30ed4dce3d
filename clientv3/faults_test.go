package clientv3_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestRevokeWhoseAnswerIsLost(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 3)
	lease := clienttest.Must(c.Grant(t.Context(), 60))
	clienttest.Must(c.Put(t.Context(), "k", "v", WithLease(lease.ID)))

	lost := cluster.Once("LeaseRevoke", clienttest.LoseAnswer)
	resp, err := c.Revoke(t.Context(), lease.ID)
	require.NoError(t, err, "the lease existed, and is revoked")
	require.Equal(t, cluster.Revision(), resp.Header.Revision)
	require.Equal(t, 1, lost.Ran())
	require.Equal(t, 2, cluster.Count("LeaseRevoke"))
	require.Nil(t, cluster.Get("k"))

	_, err = c.Revoke(t.Context(), lease.ID)
	require.Equal(t, rpctypes.ErrLeaseNotFound, err, "this call did not end it: %v", err)
}

func TestRevokeThatFindsNoMemberForTheHeader(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 3)
	lease := clienttest.Must(c.Grant(t.Context(), 60))
	cluster.Once("LeaseRevoke", clienttest.LoseAnswer)
	cluster.On("LeaseTimeToLive", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
	resp := clienttest.Must(c.Revoke(t.Context(), lease.ID))
	require.NotNil(t, resp.Header)
}

func TestGrantWhoseAnswerIsLost(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 3)
	cluster.Once("LeaseGrant", clienttest.LoseAnswer)
	resp := clienttest.Must(c.Grant(t.Context(), 60))
	require.Equal(t, int64(60), resp.TTL)
	leases := clienttest.Must(c.Leases(t.Context()))
	require.Equal(t, []LeaseStatus{{ID: resp.ID}}, leases.Leases, "no lease is left behind")
}

// A stream that ends without a message is not an empty range.
func TestGetStreamThatEndsWithoutAMessage(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		clienttest.Put(t, cluster, "k", "v")
		get := func(opts ...OpOption) (*GetResponse, error) {
			stream := clienttest.Must(c.GetStream(t.Context(), "k", append(opts, WithPrefix())...))
			return GetStreamToGetResponse(stream)
		}
		empty := func(call *fakeetcd.Call) { call.Answer(nil, nil) }

		once := cluster.Once("RangeStream", empty)
		resp := clienttest.Must(get())
		require.Equal(t, 1, once.Ran())
		require.Len(t, resp.Kvs, 1)
		require.NotNil(t, resp.Header)

		cluster.On("RangeStream", empty)
		for _, opts := range [][]OpOption{nil, {WithSort(SortByValue, SortDescend)}} {
			before := cluster.Count("RangeStream")
			_, err := get(opts...)
			require.Equal(t, codes.Unavailable, status.Code(err))
			require.ErrorContains(t, err, "the range stream ended before its last part")
			require.LessOrEqual(t, cluster.Count("RangeStream")-before, 50, "15 s of attempts")
		}
	})
}

func TestCallsToAnInvalidEndpoint(t *testing.T) {
	_, c := clienttest.StartClient(t, 1)
	const wrong = "http://not an endpoint"
	_, err := c.Status(t.Context(), wrong)
	require.ErrorContains(t, err, wrong)
	_, err = c.HashKV(t.Context(), wrong, 0)
	require.ErrorContains(t, err, wrong)
	_, err = c.Defragment(t.Context(), wrong)
	require.ErrorContains(t, err, wrong)
}

func TestRetryClients(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	conn := clienttest.Must(c.Dial(cluster.Endpoints()[0]))
	defer func() { require.NoError(t, conn.Close()) }()

	calls := map[string]struct {
		method string
		call   func() error
	}{
		"KV": {"Range", func() error {
			_, err := RetryKVClient(c).Range(t.Context(), &pb.RangeRequest{Key: []byte("k")})
			return err
		}},
		"Lease": {"LeaseLeases", func() error {
			_, err := RetryLeaseClient(c).LeaseLeases(t.Context(), &pb.LeaseLeasesRequest{})
			return err
		}},
		"Cluster": {"MemberList", func() error {
			_, err := RetryClusterClient(c).MemberList(t.Context(), &pb.MemberListRequest{})
			return err
		}},
		"Maintenance": {"Status", func() error {
			_, err := RetryMaintenanceClient(c, conn).Status(t.Context(), &pb.StatusRequest{})
			return err
		}},
		"Auth": {"UserList", func() error {
			_, err := RetryAuthClient(c).UserList(t.Context(), &pb.AuthUserListRequest{})
			return err
		}},
	}
	for name, tt := range calls {
		t.Run(name, func(t *testing.T) {
			refused := cluster.Once(tt.method, func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCNoLeader) })
			require.NoError(t, tt.call())
			require.Equal(t, 1, refused.Ran(), "refused once, and repeated")
		})
	}
}
