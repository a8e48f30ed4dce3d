package clientv3_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// serveLeasesAsKine makes the members answer like kine 0.17, which has no leases.
func serveLeasesAsKine(cluster *fakeetcd.Cluster) {
	cluster.On("LeaseGrant", func(call *fakeetcd.Call) {
		ttl := call.Request.(*pb.LeaseGrantRequest).TTL
		call.Answer(&pb.LeaseGrantResponse{Header: &pb.ResponseHeader{}, ID: ttl, TTL: ttl}, nil)
	})
	for method, text := range map[string]string{
		"LeaseKeepAlive": "lease keep alive is not supported", "LeaseRevoke": "lease revoke is not supported",
	} {
		cluster.On(method, func(call *fakeetcd.Call) { call.Answer(nil, errors.New(text)) })
	}
}

func TestLeasesOnKine(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		serveLeasesAsKine(cluster)
		lease, err := c.Grant(t.Context(), leaseTTL)
		require.NoError(t, err)

		refusal := status.Error(codes.Unknown, "lease keep alive is not supported")
		for _, ctx := range []struct{ key, value string }{{"hasleader", "true"}, {"caller", "me"}} {
			start := time.Now()
			_, err = c.KeepAliveOnce(metadata.AppendToOutgoingContext(t.Context(), ctx.key, ctx.value), lease.ID)
			assert.EqualError(t, err, refusal.Error())
			assert.Less(t, time.Since(start), time.Second, "at once")
		}
		_, err = c.Revoke(t.Context(), lease.ID)
		assert.EqualError(t, err, status.Error(codes.Unknown, "lease revoke is not supported").Error())

		before := cluster.Count("LeaseKeepAlive")
		var m LeaseMonitor
		ch := keepAlive(t, WithLeaseMonitor(t.Context(), &m), c, lease.ID)
		_, open := <-ch
		require.False(t, open)
		assert.ErrorIs(t, m.Err(), ErrLeaseUnanswered)
		assert.ErrorContains(t, m.Err(), "not supported")
		assert.LessOrEqual(t, cluster.Count("LeaseKeepAlive")-before, 4*leaseTTL, "streams until the lease has ended")
	})
}

// TestKeepAliveOnceCarriesMetadata: the caller's metadata is sent, and not on a stream of others.
func TestKeepAliveOnceCarriesMetadata(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 3)
	id := grant(t, c)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "tenant", "blue")
	broken := cluster.Once("LeaseKeepAlive", func(call *fakeetcd.Call) { call.BreakConn() })
	resp, err := c.KeepAliveOnce(ctx, id)
	require.NoError(t, err)
	assert.Equal(t, id, resp.ID)
	assert.Equal(t, 1, broken.Ran(), "it survives a fault")
	calls := cluster.Calls("LeaseKeepAlive")
	require.Len(t, calls, 2)
	for _, call := range calls {
		assert.Equal(t, []string{"blue"}, call.Metadata.Get("tenant"))
		assert.Equal(t, []string{"true"}, call.Metadata.Get("hasleader"), "so that it ends where it cannot be served")
	}

	_, err = c.KeepAliveOnce(WithRequireLeader(t.Context()), id)
	require.NoError(t, err)
	_, err = c.KeepAliveOnce(t.Context(), id)
	require.NoError(t, err)
	calls = cluster.Calls("LeaseKeepAlive")
	require.Len(t, calls, 3, "one stream for all callers without metadata")
	assert.Empty(t, calls[2].Metadata.Get("tenant"))
}
