package channel

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// Ranges whose responses are large use a connection of their own, for as long as they are large.
func TestLargeRangesHaveAConnectionOfTheirOwn(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *witness) {
		size := largeResponse
		cluster.On("Range", func(call *fakeetcd.Call) {
			if len(call.Request.(*pb.RangeRequest).GetRangeEnd()) > 0 {
				call.Answer(&pb.RangeResponse{Header: &pb.ResponseHeader{}, Kvs: []*mvccpb.KeyValue{{Key: []byte("a"), Value: make([]byte, size)}}}, nil)
			}
		})
		get := func(end string) {
			t.Helper()
			_, err := pb.NewKVClient(c).Range(t.Context(), &pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte(end)})
			require.NoError(t, err)
		}
		before := dials(cluster)
		get("b")
		assert.Equal(t, before, dials(cluster), "its size is not known yet")
		get("b")
		assert.NotEqual(t, before, dials(cluster))
		with := dials(cluster)
		for range 10 {
			get("b")
			require.NoError(t, readK(t, c))
		}
		assert.Equal(t, with, dials(cluster), "one such connection is enough")
		size = 1
		get("b")
		assert.False(t, c.large.has(&pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte("b")}))
	})
}

func TestSizesAreBounded(t *testing.T) {
	var l largeRanges
	large := &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Value: make([]byte, largeResponse)}}}
	for n := range 2 * maxLargeRanges {
		l.learn(&pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte{byte(n >> 8), byte(n), 1}}, large)
	}
	assert.EqualValues(t, maxLargeRanges, l.count.Load())
	page := &pb.RangeRequest{Key: []byte("a/x"), RangeEnd: []byte{0, 1, 1}}
	assert.True(t, l.has(page), "another page of the same prefix")
	page.KeysOnly = true
	assert.False(t, l.has(page))
	page.KeysOnly, page.Limit = false, 10
	assert.False(t, l.has(page), "its response is bounded")
	l.learn(&pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte{0, 1, 1}}, &pb.RangeResponse{})
	assert.EqualValues(t, maxLargeRanges-1, l.count.Load())
}
