package clientv3_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// headerOf returns a header of a cluster.
func headerOf(cluster uint64, rev int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: cluster, Revision: rev}
}

// answerRanges answers gets at a revision.
func answerRanges(cluster *fakeetcd.Cluster, h *pb.ResponseHeader) {
	cluster.On("Range", func(call *fakeetcd.Call) {
		call.Answer(&pb.RangeResponse{Header: proto.Clone(h).(*pb.ResponseHeader)}, nil)
	})
}

// requireChanged checks that a watch ends because the cluster has changed.
func requireChanged(t *testing.T, w WatchChan, want ClusterChangedError) {
	t.Helper()
	resp, ok := next(t, w)
	require.True(t, ok)
	require.True(t, resp.Canceled)
	var changed *ClusterChangedError
	require.ErrorAs(t, resp.Err(), &changed)
	require.Equal(t, want, *changed)
	_, ok = next(t, w)
	require.False(t, ok)
}

// watchTo1000 returns a watch of cluster 1 that has seen revision 1000 on a stream that ended, and the next stream.
func watchTo1000(t *testing.T, cluster *fakeetcd.Cluster, c *Client) (WatchChan, *scriptedStream, *pb.WatchCreateRequest, <-chan *scriptedStream) {
	t.Helper()
	streams := scriptWatches(t, cluster, 3)
	starting := startWatch(clienttest.Within(t), c, "k")
	s := take(t, streams)
	id := s.createRequest().WatchId
	s.respond(&pb.WatchResponse{Header: headerOf(1, 999), WatchId: id, Created: true})
	w := started(t, starting)
	event := &pb.WatchResponse{Header: headerOf(1, 1000), WatchId: id, Events: []*Event{{Kv: &mvccpb.KeyValue{Key: []byte("k"), ModRevision: 1000}}}}
	s.respond(event)
	_, ok := next(t, w)
	require.True(t, ok)
	s.end()
	s = take(t, streams)
	return w, s, s.createRequest(), streams
}

func TestWatchEndsWhenTheClusterChanges(t *testing.T) {
	for name, now := range map[string]*pb.ResponseHeader{
		"another cluster": headerOf(2, 500), "another cluster, at a higher revision": headerOf(2, 5000), "the same, gone back": headerOf(1, 500),
	} {
		t.Run(name, func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 1)
			answerRanges(cluster, now)
			w, s, create, streams := watchTo1000(t, cluster, c)
			require.EqualValues(t, 1001, create.StartRevision)
			s.respond(&pb.WatchResponse{Header: now, WatchId: create.WatchId, Created: true})
			requireChanged(t, w, ClusterChangedError{1, 1000, now.ClusterId, now.Revision})

			// The next watch belongs to the new history.
			starting := startWatch(clienttest.Within(t), c, "k")
			s = take(t, streams)
			s.respond(&pb.WatchResponse{Header: now, WatchId: s.createRequest().WatchId, Created: true})
			w = started(t, starting)
			select {
			case resp := <-w:
				require.Fail(t, "it ended", "%v", resp.Err())
			default:
			}
		})
	}
}

// A lagging member has a lower revision too, but the others do not.
func TestWatchContinuesOnALaggingMember(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	answerRanges(cluster, headerOf(1, 1000))
	w, s, create, _ := watchTo1000(t, cluster, c)
	reads := cluster.Count("Range")
	s.respond(&pb.WatchResponse{Header: headerOf(1, 990), WatchId: create.WatchId, Created: true})
	s.respond(&pb.WatchResponse{Header: headerOf(1, 1001), WatchId: create.WatchId, Events: []*Event{{Kv: &mvccpb.KeyValue{Key: []byte("k"), ModRevision: 1001}}}})
	resp, ok := next(t, w)
	require.True(t, ok)
	require.NoError(t, resp.Err())
	require.EqualValues(t, 1001, resp.Events[0].Kv.ModRevision)
	require.Eventually(t, func() bool { return cluster.Count("Range") == reads+1 }, watchPatience, time.Millisecond)
}

// Headers of kine and of the grpc-proxy need not name a cluster.
func TestHeadersWithoutAClusterIDAreIgnored(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	answerRanges(cluster, headerOf(0, 1))
	w, s, create, _ := watchTo1000(t, cluster, c)
	s.respond(&pb.WatchResponse{Header: headerOf(0, 990), WatchId: create.WatchId, Created: true})
	_, err := c.Get(clienttest.Within(t), "k")
	require.NoError(t, err)
	s.respond(&pb.WatchResponse{Header: headerOf(0, 1001), WatchId: create.WatchId, Events: []*Event{{Kv: &mvccpb.KeyValue{Key: []byte("k"), ModRevision: 1001}}}})
	resp, ok := next(t, w)
	require.True(t, ok)
	require.NoError(t, resp.Err())
}

// A change detected by any call ends all watches at once; the call itself succeeds.
func TestCallDetectsAChangedCluster(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	streams := scriptWatches(t, cluster, 3)
	starting := startWatch(clienttest.Within(t), c, "k")
	s := take(t, streams)
	id := s.createRequest().WatchId
	s.respond(&pb.WatchResponse{Header: headerOf(1, 1000), WatchId: id, Created: true})
	w := started(t, starting)
	answerRanges(cluster, headerOf(1, 900))
	_, err := c.Get(clienttest.Within(t), "k", WithSerializable())
	require.NoError(t, err)
	select {
	case resp := <-w:
		require.Fail(t, "a lagging member may answer a serializable read", "%v", resp.Err())
	default:
	}
	resp, err := c.Get(clienttest.Within(t), "k")
	require.NoError(t, err)
	assert.EqualValues(t, 900, resp.Header.Revision)
	requireChanged(t, w, ClusterChangedError{1, 1000, 1, 900})
}

// A watch from the revision of an earlier read ends too.
func TestWatchFromARevisionOfAnEarlierHistory(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	answerRanges(cluster, headerOf(1, 1000))
	_, err := c.Get(clienttest.Within(t), "k")
	require.NoError(t, err)
	answerRanges(cluster, headerOf(1, 900))
	streams := scriptWatches(t, cluster, 3)
	starting := startWatch(clienttest.Within(t), c, "k", WithRev(1001))
	s := take(t, streams)
	id := s.createRequest().WatchId
	s.respond(&pb.WatchResponse{Header: headerOf(1, 900), WatchId: id, Created: true})
	requireChanged(t, started(t, starting), ClusterChangedError{1, 1000, 1, 900})
}
