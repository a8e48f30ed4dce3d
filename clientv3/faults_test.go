package clientv3_test

import (
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestRevokeWhoseAnswerIsLost(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 3)
	lease, err := c.Grant(t.Context(), 60)
	require.NoError(t, err)
	_, err = c.Put(t.Context(), "k", "v", WithLease(lease.ID))
	require.NoError(t, err)

	lost := cluster.Once("LeaseRevoke", func(call *fakeetcd.Call) {
		_, err := call.Execute()
		assert.NoError(t, err)
		call.BreakConn()
	})
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
	lease, err := c.Grant(t.Context(), 60)
	require.NoError(t, err)
	cluster.Once("LeaseRevoke", func(call *fakeetcd.Call) {
		_, _ = call.Execute()
		call.BreakConn()
	})
	cluster.On("LeaseTimeToLive", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
	resp, err := c.Revoke(t.Context(), lease.ID)
	require.NoError(t, err)
	require.NotNil(t, resp.Header)
}

func TestGrantWhoseAnswerIsLost(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 3)
	cluster.Once("LeaseGrant", func(call *fakeetcd.Call) {
		_, err := call.Execute()
		assert.NoError(t, err)
		call.BreakConn()
	})
	resp, err := c.Grant(t.Context(), 60)
	require.NoError(t, err)
	require.Equal(t, int64(60), resp.TTL)
	leases, err := c.Leases(t.Context())
	require.NoError(t, err)
	require.Equal(t, []LeaseStatus{{ID: resp.ID}}, leases.Leases, "no lease is left behind")
}

func TestGetStreamOverConnectionsThatBreak(t *testing.T) {
	const keys = 100
	cluster, c := clienttest.StartClient(t, 3)
	for i := range keys {
		clienttest.Put(t, cluster, fmt.Sprintf("k%02d", i), "v")
	}
	want, err := c.Get(t.Context(), "k", WithPrefix(), WithLimit(70))
	require.NoError(t, err)

	broken := 0
	for at := range 10 {
		var sent atomic.Int32
		hook := cluster.Once("RangeStream", func(call *fakeetcd.Call) {
			call.OnSend(func(proto.Message) bool {
				if sent.Add(1) == int32(at)+1 {
					call.BreakConn()
				}
				return true
			})
			_, _ = call.Execute()
		})
		stream, err := c.GetStream(t.Context(), "k", WithPrefix(), WithLimit(70))
		require.NoError(t, err)
		got, err := GetStreamToGetResponse(stream)
		require.NoError(t, err)
		got.Header.MemberId = want.Header.MemberId // it may be another member
		requireProto(t, (*pb.RangeResponse)(want), (*pb.RangeResponse)(got))
		require.Equal(t, 1, hook.Ran())
		if sent.Load() > int32(at) {
			broken++
		}
	}
	require.Greater(t, broken, 2, "the range must take several chunks")
}

// A stream that ends without a message is not an empty range.
func TestGetStreamThatEndsWithoutAMessage(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		clienttest.Put(t, cluster, "k", "v")
		get := func(opts ...OpOption) (*GetResponse, error) {
			stream, err := c.GetStream(t.Context(), "k", append(opts, WithPrefix())...)
			require.NoError(t, err)
			return GetStreamToGetResponse(stream)
		}
		empty := func(call *fakeetcd.Call) { call.Answer(nil, nil) }

		once := cluster.Once("RangeStream", empty)
		resp, err := get()
		require.NoError(t, err)
		require.Equal(t, 1, once.Ran())
		require.Len(t, resp.Kvs, 1)
		require.NotNil(t, resp.Header)

		cluster.On("RangeStream", empty)
		for _, opts := range [][]OpOption{nil, {WithSort(SortByValue, SortDescend)}} {
			before := cluster.Count("RangeStream")
			_, err = get(opts...)
			require.Equal(t, codes.Unavailable, status.Code(err))
			require.ErrorContains(t, err, "the range stream ended before its last part")
			require.LessOrEqual(t, cluster.Count("RangeStream")-before, 50, "15 s of attempts")
		}
	})
}

func TestGetStreamFromServersThatCannot(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 3)
	for i := range 250 {
		clienttest.Put(t, cluster, fmt.Sprintf("k%03d", i), "v")
	}
	cluster.On("RangeStream", func(call *fakeetcd.Call) {
		call.Answer(nil, status.Error(codes.Unimplemented, "unknown method RangeStream for service etcdserverpb.KV"))
	})
	stream, err := c.GetStream(t.Context(), "k", WithPrefix())
	require.NoError(t, err)
	_, err = GetStreamToGetResponse(stream)
	require.Equal(t, codes.Unimplemented, status.Code(err), "%v", err)
	require.Zero(t, cluster.Count("Range"))

	stream, err = c.GetStream(t.Context(), "k", WithPrefix(), WithPageFallback())
	require.NoError(t, err)
	got, err := GetStreamToGetResponse(stream)
	require.NoError(t, err)
	require.Len(t, got.Kvs, 250)
	require.Equal(t, int64(250), got.Count)
	require.Equal(t, 2, cluster.Count("RangeStream"))
}

func TestSnapshotOverConnectionsThatBreak(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 3)
	cluster.Once("Snapshot", func(call *fakeetcd.Call) { call.BreakConn() })
	rc, err := c.Snapshot(t.Context())
	require.NoError(t, err, "nothing had been delivered")
	whole, err := io.ReadAll(rc)
	require.NoError(t, err)
	require.NotEmpty(t, whole)

	cluster.Once("Snapshot", func(call *fakeetcd.Call) {
		assert.NoError(t, call.Send(&pb.SnapshotResponse{Blob: whole[:1]}))
		call.BreakConn()
	})
	rc, err = c.Snapshot(t.Context())
	require.NoError(t, err)
	part, err := io.ReadAll(rc)
	require.Equal(t, whole[:1], part)
	require.Equal(t, codes.Unavailable, status.Code(err))

	cluster.Once("Snapshot", func(call *fakeetcd.Call) {
		assert.NoError(t, call.Send(&pb.SnapshotResponse{Blob: whole[:1]}))
	})
	rc, err = c.Snapshot(t.Context())
	require.NoError(t, err)
	_, err = io.ReadAll(rc)
	require.Equal(t, ErrSnapshotDigest, err, "a server that stops early without an error")
}

func TestPerEndpointCallsKeepTheirConnection(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	member := cluster.Member(0)
	_, err := c.Status(t.Context(), member.Endpoint())
	require.NoError(t, err)
	dials := member.Dials()
	for range 10 {
		_, err = c.Status(t.Context(), member.Endpoint())
		require.NoError(t, err)
		_, err = c.HashKV(t.Context(), member.Endpoint(), 0)
		require.NoError(t, err)
		_, err = c.Defragment(t.Context(), member.Endpoint())
		require.NoError(t, err)
	}
	require.Equal(t, dials, member.Dials())

	const wrong = "http://not an endpoint"
	_, err = c.Status(t.Context(), wrong)
	require.ErrorContains(t, err, wrong)
	_, err = c.HashKV(t.Context(), wrong, 0)
	require.ErrorContains(t, err, wrong)
	_, err = c.Defragment(t.Context(), wrong)
	require.ErrorContains(t, err, wrong)
}

func TestRetryClients(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	conn, err := c.Dial(cluster.Endpoints()[0])
	require.NoError(t, err)
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
