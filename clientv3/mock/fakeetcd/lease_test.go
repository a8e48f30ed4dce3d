package fakeetcd

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

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

func timeToLive(t *testing.T, lease pb.LeaseClient, id int64) int64 {
	t.Helper()
	resp, err := lease.LeaseTimeToLive(t.Context(), &pb.LeaseTimeToLiveRequest{ID: id})
	require.NoError(t, err)
	return resp.TTL
}

// A lease ends when its TTL has passed since the last renewal, with the keys that it has then.
func TestLeaseExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, kv := startKV(t)
		lease := pb.NewLeaseClient(dial(t, cluster.Member(0)))
		grant := func(id int64) {
			t.Helper()
			_, err := lease.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: id, TTL: 10})
			require.NoError(t, err)
		}
		grant(1)
		time.Sleep(time.Hour)
		assert.EqualValues(t, 10, timeToLive(t, lease, 1), "the clock does not run")

		cluster.EnableLeaseExpiry()
		grant(2)
		_, err := kv.Put(t.Context(), &pb.PutRequest{Key: []byte("k"), Lease: 2})
		require.NoError(t, err)
		time.Sleep(4500 * time.Millisecond)
		assert.EqualValues(t, 5, timeToLive(t, lease, 1))
		stream, err := lease.LeaseKeepAlive(t.Context())
		require.NoError(t, err)
		require.NoError(t, stream.Send(&pb.LeaseKeepAliveRequest{ID: 2}))
		_, err = stream.Recv()
		require.NoError(t, err)
		assert.EqualValues(t, 10, timeToLive(t, lease, 2))

		time.Sleep(6 * time.Second)
		assert.EqualValues(t, -1, timeToLive(t, lease, 1))
		assert.EqualValues(t, 4, timeToLive(t, lease, 2))
		_, err = lease.LeaseRevoke(t.Context(), &pb.LeaseRevokeRequest{ID: 2})
		require.NoError(t, err)
		grant(2) // another lease, which the end of the first one does not touch
		time.Sleep(5 * time.Second)
		assert.EqualValues(t, 5, timeToLive(t, lease, 2))
		_, err = kv.Put(t.Context(), &pb.PutRequest{Key: []byte("k"), Lease: 2})
		require.NoError(t, err)
		time.Sleep(6 * time.Second)
		assert.EqualValues(t, -1, timeToLive(t, lease, 2))
		assert.Nil(t, cluster.Get("k"))
	})
}

// Without a leader no lease ends; the next leader gives each its TTL.
func TestLeaseExpiryNeedsALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := start(t, 3)
		cluster.EnableLeaseExpiry()
		lease := pb.NewLeaseClient(dial(t, cluster.Member(0)))
		_, err := lease.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 1, TTL: 10})
		require.NoError(t, err)
		assert.Equal(t, cluster.Member(0), cluster.Leader())
		cluster.SetLeader(nil)
		assert.Nil(t, cluster.Leader())
		time.Sleep(time.Minute)
		cluster.SetLeader(cluster.Member(0))
		assert.EqualValues(t, 10, timeToLive(t, lease, 1))
		time.Sleep(9 * time.Second)
		cluster.SetLeader(cluster.Member(2))
		time.Sleep(9 * time.Second)
		assert.EqualValues(t, 1, timeToLive(t, lease, 1))
		time.Sleep(2 * time.Second)
		assert.EqualValues(t, -1, timeToLive(t, lease, 1))
	})
}
