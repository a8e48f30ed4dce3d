package fakeetcd

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

func TestLease(t *testing.T) {
	cluster, kv := startKV(t)
	lease := pb.NewLeaseClient(dial(t, cluster.Member(0)))
	granted, err := lease.LeaseGrant(within(t), &pb.LeaseGrantRequest{TTL: 60})
	require.NoError(t, err)
	id := granted.ID
	assert.Positive(t, id)
	assert.Equal(t, cluster.Member(0).ID(), granted.Header.MemberId)
	_, err = lease.LeaseGrant(within(t), &pb.LeaseGrantRequest{ID: id, TTL: 60})
	wantError(t, rpctypes.ErrGRPCLeaseExist, err)
	_, err = kv.Put(within(t), &pb.PutRequest{Key: []byte("k"), Lease: id})
	require.NoError(t, err)

	ttl, err := lease.LeaseTimeToLive(within(t), &pb.LeaseTimeToLiveRequest{ID: id, Keys: true})
	require.NoError(t, err)
	assert.EqualValues(t, 60, ttl.TTL)
	assert.Equal(t, [][]byte{[]byte("k")}, ttl.Keys)
	list, err := lease.LeaseLeases(within(t), &pb.LeaseLeasesRequest{})
	require.NoError(t, err)
	assert.Len(t, list.Leases, 1)

	require.NoError(t, cluster.ExpireLease(id))
	assert.Nil(t, cluster.Get("k"))
	wantError(t, rpctypes.ErrGRPCLeaseNotFound, cluster.ExpireLease(id))
	_, err = lease.LeaseRevoke(within(t), &pb.LeaseRevokeRequest{ID: id})
	wantError(t, rpctypes.ErrGRPCLeaseNotFound, err)
	ttl, err = lease.LeaseTimeToLive(within(t), &pb.LeaseTimeToLiveRequest{ID: id})
	require.NoError(t, err)
	assert.EqualValues(t, -1, ttl.TTL)
}

func TestLeaseKeepAlive(t *testing.T) {
	cluster := start(t, 1)
	lease := pb.NewLeaseClient(dial(t, cluster.Member(0)))
	_, err := lease.LeaseGrant(within(t), &pb.LeaseGrantRequest{ID: 7, TTL: 60})
	require.NoError(t, err)
	stream, err := lease.LeaseKeepAlive(within(t))
	require.NoError(t, err)
	for id, ttl := range map[int64]int64{7: 60, 8: 0} {
		require.NoError(t, stream.Send(&pb.LeaseKeepAliveRequest{ID: id}))
		resp, err := stream.Recv()
		require.NoError(t, err)
		assert.Equal(t, id, resp.ID)
		assert.Equal(t, ttl, resp.TTL)
		assert.EqualValues(t, 1, resp.Header.Revision)
	}
	require.NoError(t, stream.CloseSend())
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)
}
