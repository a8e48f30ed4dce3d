package fakeetcd

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// wantError checks that a call failed with exactly the server's error.
func wantError(t *testing.T, want, got error) {
	t.Helper()
	assert.Equal(t, status.Convert(want).Proto().String(), status.Convert(got).Proto().String())
}

// The store is written and read without calls, and its errors are the server's.
func TestStoreWithoutCalls(t *testing.T) {
	cluster := start(t, 2)
	kv := kvOf(t, cluster.Member(1))
	assert.EqualValues(t, 2, mustPut(t, cluster, "k", "v"))
	resp, err := kv.Range(within(t), get("k"))
	require.NoError(t, err)
	assert.EqualValues(t, 1, resp.Count)
	assert.Equal(t, cluster.Member(1).ID(), resp.Header.MemberId)
	assert.EqualValues(t, ClusterID, resp.Header.ClusterId)
	_, err = cluster.Put("", "v")
	wantError(t, rpctypes.ErrGRPCEmptyKey, err)

	wantError(t, rpctypes.ErrGRPCFutureRev, cluster.Compact(3))
	require.NoError(t, cluster.Compact(2))
	wantError(t, rpctypes.ErrGRPCCompacted, cluster.Compact(2))

	lease := pb.NewLeaseClient(dial(t, cluster.Member(0)))
	granted, err := lease.LeaseGrant(within(t), &pb.LeaseGrantRequest{TTL: 60})
	require.NoError(t, err)
	_, err = kv.Put(within(t), &pb.PutRequest{Key: []byte("k"), Lease: granted.ID})
	require.NoError(t, err)
	require.NoError(t, cluster.ExpireLease(granted.ID))
	assert.Nil(t, cluster.Get("k"))
	wantError(t, rpctypes.ErrGRPCLeaseNotFound, cluster.ExpireLease(granted.ID))
}

// Every chunk is read at the revision of the first, whatever is written meanwhile.
func TestRangeStreamIsOfOneRevision(t *testing.T) {
	cluster, kv := startKV(t)
	for i := range 45 {
		mustPut(t, cluster, fmt.Sprintf("k%02d", i), "v")
	}
	rev := cluster.Revision()
	cluster.Once("RangeStream", func(c *Call) {
		c.OnSend(func(proto.Message) bool {
			_, err := cluster.Put("kk", "written meanwhile")
			return assert.NoError(t, err)
		})
	})
	stream, err := kv.RangeStream(within(t), &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l")})
	require.NoError(t, err)
	var chunks []int
	var last *pb.RangeResponse
	resp, err := stream.Recv()
	for ; err == nil; resp, err = stream.Recv() {
		last = resp.RangeResponse
		chunks = append(chunks, len(last.Kvs))
	}
	require.Equal(t, io.EOF, err)
	assert.Equal(t, []int{10, 20, 15}, chunks)
	assert.EqualValues(t, 45, last.Count)
	assert.Equal(t, rev, last.Header.Revision)
}
