package fakeetcd

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// wantError checks that a call failed with exactly the server's error.
func wantError(t *testing.T, want, got error) {
	t.Helper()
	assert.Equal(t, status.Convert(want).Proto().String(), status.Convert(got).Proto().String())
}

func TestKV(t *testing.T) {
	cluster := start(t, 2)
	kv, other := kvOf(t, cluster.Member(0)), kvOf(t, cluster.Member(1))
	resp, err := kv.Put(within(t), put("k", "v"))
	require.NoError(t, err)
	assert.EqualValues(t, 2, resp.Header.Revision)
	assert.EqualValues(t, ClusterID, resp.Header.ClusterId)
	assert.Equal(t, cluster.Member(0).ID(), resp.Header.MemberId)
	assert.EqualValues(t, firstTerm, resp.Header.RaftTerm)

	got, err := other.Range(within(t), get("k"))
	require.NoError(t, err)
	assert.Equal(t, "v", string(got.Kvs[0].Value), "the members share one store")
	assert.Equal(t, cluster.Member(1).ID(), got.Header.MemberId)

	txn, err := kv.Txn(within(t), &pb.TxnRequest{Success: []*pb.RequestOp{
		{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("k")}}},
	}})
	require.NoError(t, err)
	assert.True(t, txn.Succeeded)
	deleted, err := kv.DeleteRange(within(t), &pb.DeleteRangeRequest{Key: []byte("k")})
	require.NoError(t, err)
	assert.Zero(t, deleted.Deleted)
	_, err = kv.Compact(within(t), &pb.CompactionRequest{Revision: 3})
	require.NoError(t, err)
	_, err = kv.Range(within(t), &pb.RangeRequest{Key: []byte("k"), Revision: 2})
	wantError(t, rpctypes.ErrGRPCCompacted, err)
}

func TestClusterPut(t *testing.T) {
	cluster, kv := startKV(t)
	rev := mustPut(t, cluster, "k", "v")
	assert.EqualValues(t, 2, rev)
	resp, err := kv.Range(within(t), get("k"))
	require.NoError(t, err)
	assert.EqualValues(t, 1, resp.Count)
	_, err = cluster.Put("", "v")
	wantError(t, rpctypes.ErrGRPCEmptyKey, err)
}

func TestRequestTooLarge(t *testing.T) {
	_, kv := startKV(t)
	_, err := kv.Put(within(t), put("k", string(make([]byte, maxRequestBytes))))
	wantError(t, rpctypes.ErrGRPCRequestTooLarge, err)
	_, err = kv.Put(within(t), put("k", string(make([]byte, maxRecvBytes))))
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "received message larger than max")
}

func collect[R any](t *testing.T, stream grpc.ServerStreamingClient[R]) []*R {
	t.Helper()
	var all []*R
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, resp)
	}
}

func TestRangeStream(t *testing.T) {
	cluster, kv := startKV(t)
	for i := range 45 {
		mustPut(t, cluster, fmt.Sprintf("k%02d", i), "v")
	}
	tests := []struct {
		name   string
		req    *pb.RangeRequest
		chunks []int
		count  int64
		more   bool
	}{
		{"all", &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l")}, []int{10, 20, 15}, 45, false},
		{"limit", &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), Limit: 12}, []int{10, 2}, 45, true},
		{"small limit", &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), Limit: 2}, []int{2}, 45, true},
		{"count only", &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), CountOnly: true}, []int{0}, 45, false},
		{"nothing", &pb.RangeRequest{Key: []byte("x")}, []int{0}, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rev := cluster.Revision()
			cluster.Once("RangeStream", func(c *Call) {
				// Every chunk is read at the revision of the first.
				c.OnSend(func(proto.Message) bool {
					_, err := cluster.Put("kk", "written meanwhile")
					return assert.NoError(t, err)
				})
			})
			stream, err := kv.RangeStream(within(t), tt.req)
			require.NoError(t, err)
			responses := collect(t, stream)
			var chunks []int
			for _, r := range responses[:len(responses)-1] {
				chunks = append(chunks, len(r.RangeResponse.Kvs))
				assert.Nil(t, r.RangeResponse.Header, "only the last response has a header")
			}
			last := responses[len(responses)-1].RangeResponse
			assert.Equal(t, tt.chunks, append(chunks, len(last.Kvs)))
			assert.Equal(t, tt.count, last.Count)
			assert.Equal(t, tt.more, last.More)
			assert.Equal(t, rev, last.Header.Revision)

			_, err = kv.DeleteRange(within(t), &pb.DeleteRangeRequest{Key: []byte("kk")})
			require.NoError(t, err)
		})
	}
}

func TestRangeStreamErrors(t *testing.T) {
	_, kv := startKV(t)
	for name, tt := range map[string]struct {
		req  *pb.RangeRequest
		code codes.Code
	}{
		"sorted":   {&pb.RangeRequest{Key: []byte("k"), SortOrder: pb.RangeRequest_DESCEND}, codes.Unimplemented},
		"filtered": {&pb.RangeRequest{Key: []byte("k"), MinModRevision: 1}, codes.Unimplemented},
		"future":   {&pb.RangeRequest{Key: []byte("k"), Revision: 9}, codes.OutOfRange},
		"no key":   {&pb.RangeRequest{}, codes.InvalidArgument},
	} {
		stream, err := kv.RangeStream(within(t), tt.req)
		require.NoError(t, err, name)
		_, err = stream.Recv()
		assert.Equal(t, tt.code, status.Code(err), name)
	}
}
