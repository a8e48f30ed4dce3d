package clientv3_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// headerOf returns a header of a cluster.
func headerOf(cluster uint64, rev int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: cluster, Revision: rev}
}

// answerSingleKeys answers as a grpc-proxy with a leasing prefix does, which serves single keys from memory.
func answerSingleKeys(cluster *fakeetcd.Cluster, remembered, now *pb.ResponseHeader) {
	cluster.On("Range", func(call *fakeetcd.Call) {
		h := remembered
		if len(call.Request.(*pb.RangeRequest).RangeEnd) > 0 {
			h = now
		}
		call.Answer(&pb.RangeResponse{Header: proto.CloneOf(h)}, nil)
	})
	cluster.On("Txn", func(call *fakeetcd.Call) {
		call.Answer(&pb.TxnResponse{Header: proto.CloneOf(remembered)}, nil)
	})
}

// answerRanges answers gets at a revision.
func answerRanges(cluster *fakeetcd.Cluster, h *pb.ResponseHeader) {
	cluster.On("Range", func(call *fakeetcd.Call) {
		if len(call.Request.(*pb.RangeRequest).Key) > 0 { // which etcd refuses
			call.Answer(&pb.RangeResponse{Header: proto.Clone(h).(*pb.ResponseHeader)}, nil)
		}
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
func watchTo1000(t *testing.T, cluster *fakeetcd.Cluster, c *Client, key string) (WatchChan, *scriptedStream, <-chan *scriptedStream) {
	t.Helper()
	streams := scriptWatches(t, cluster, 3)
	starting := startWatch(clienttest.Within(t), c, key)
	s := take(t, streams)
	id := s.accept(headerOf(1, 999)).WatchId
	w := started(t, starting)
	s.put(id, headerOf(1, 1000))
	_, ok := next(t, w)
	require.True(t, ok)
	s.fail(errBroken)
	return w, take(t, streams), streams
}

func TestWatchEndsWhenTheClusterChanges(t *testing.T) {
	for name, now := range map[string]*pb.ResponseHeader{
		"another cluster": headerOf(2, 500), "another cluster, at a higher revision": headerOf(2, 5000), "the same, gone back": headerOf(1, 500),
	} {
		t.Run(name, func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 1)
			answerRanges(cluster, now)
			w, s, streams := watchTo1000(t, cluster, c, "")
			require.EqualValues(t, 1001, s.accept(now).StartRevision)
			requireChanged(t, w, ClusterChangedError{1, 1000, now.ClusterId, now.Revision})

			// The next watch belongs to the new history.
			starting := startWatch(clienttest.Within(t), c, "k")
			take(t, streams).accept(now)
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
	answerSingleKeys(cluster, headerOf(1, 900), headerOf(1, 1000))
	w, s, _ := watchTo1000(t, cluster, c, "k")
	reads := cluster.Count("Range")
	s.put(s.accept(headerOf(1, 990)).WatchId, headerOf(1, 1001))
	resp, ok := next(t, w)
	require.True(t, ok)
	require.NoError(t, resp.Err())
	require.EqualValues(t, 1001, resp.Events[0].Kv.ModRevision)
	require.Eventually(t, func() bool { return cluster.Count("Range") == reads+1 }, watchTimeout, time.Millisecond)
}

// A change detected by any call ends all watches at once; the call itself succeeds.
func TestCallDetectsAChangedCluster(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	streams := scriptWatches(t, cluster, 3)
	starting := startWatch(clienttest.Within(t), c, "k")
	take(t, streams).accept(headerOf(1, 1000))
	w := started(t, starting)
	answerSingleKeys(cluster, headerOf(1, 800), headerOf(1, 900))
	clienttest.Get(t, c, "k", WithPrefix(), WithSerializable()) // a lagging member may answer
	clienttest.Get(t, c, "k")                                   // so may a proxy's memory
	_, err := c.Txn(t.Context()).If(Compare(Version("k"), "=", 0)).Then(OpPut("k", "")).Else(OpGet("k")).Commit()
	require.NoError(t, err)
	select {
	case resp := <-w:
		require.Fail(t, "it ended", "%v", resp.Err())
	default:
	}
	resp := clienttest.Get(t, c, "k", WithPrefix())
	assert.EqualValues(t, 900, resp.Header.Revision)
	requireChanged(t, w, ClusterChangedError{1, 1000, 1, 900})
}

// A client whose endpoints belong to two clusters fills no log, and opens few streams for a watch that its program makes
// again and again.
func TestChangesOfTheClusterAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := clienttest.Start(t, 1)
		core, logs := observer.New(zap.WarnLevel)
		c := clienttest.Connect(t, cluster, Config{Logger: zap.New(core)})
		clienttest.Get(t, c, "k")
		require.Empty(t, logs.All())
		go func() {
			for t.Context().Err() == nil {
				for range c.Watch(t.Context(), "k") {
				}
			}
		}()
		for n := range uint64(90) {
			answerRanges(cluster, headerOf(n%2+1, 900))
			clienttest.Get(t, c, "k")
			time.Sleep(time.Second)
		}
		require.Less(t, cluster.Count("Watch"), 20)
		changes := logs.FilterMessageSnippet("endpoints belong to several clusters").All()
		require.Len(t, changes, 2)
		require.Contains(t, changes[0].ContextMap()["error"], "the cluster is another one: 1 at revision 900")
	})
}
