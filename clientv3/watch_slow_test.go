package clientv3_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

const (
	// slowBuffer is the bound of a watch's buffer in these tests.
	slowBuffer = 64 << 10
	// slowValue and slowPuts exceed it many times.
	slowValue = 4 << 10
	slowPuts  = 200
)

// startSlow starts a cluster and a client with small buffers.
func startSlow(t *testing.T) (*fakeetcd.Cluster, *Client) {
	t.Helper()
	cluster := clienttest.Start(t, 1)
	return cluster, clienttest.Connect(t, cluster, Config{MaxWatchBufferBytes: slowBuffer})
}

// overflow has one watch that reads nothing during far more events than its buffer holds, and
// another one that reads them all. It returns the first when the client has paused it.
func overflow(t *testing.T, cluster *fakeetcd.Cluster, c *Client) (slow WatchChan, last int64) {
	t.Helper()
	slow = c.Watch(clienttest.Within(t), "k")
	fast := c.Watch(clienttest.Within(t), "k")
	last = putLarge(t, cluster, fast)
	require.Eventually(t, func() bool { return len(cancelRequests(cluster)) == 1 }, watchPatience, time.Millisecond)
	require.Equal(t, 1, cluster.Count("Watch"), "the others are not disturbed")
	return slow, last
}

// putLarge writes many large values, which one watch reads meanwhile.
func putLarge(t *testing.T, cluster *fakeetcd.Cluster, fast WatchChan) (last int64) {
	t.Helper()
	value := strings.Repeat("x", slowValue)
	for range slowPuts {
		last = clienttest.Put(t, cluster, "k", value)
		requireRevs(t, fast, last, last)
	}
	return last
}

// cancelRequests returns the ids that the client cancelled on any stream.
func cancelRequests(cluster *fakeetcd.Cluster) []int64 {
	var ids []int64
	for _, call := range cluster.Calls("Watch") {
		for _, req := range call.Requests {
			if r := req.(*pb.WatchRequest).GetCancelRequest(); r != nil {
				ids = append(ids, r.WatchId)
			}
		}
	}
	return ids
}

// TestWatchSlowReaderAndCompaction compacts the revisions that a slow reader has not been sent
// yet. It receives its buffer, without a gap, and then the reason.
func TestWatchSlowReaderAndCompaction(t *testing.T) {
	cluster, c := startSlow(t)
	slow, last := overflow(t, cluster, c)
	require.NoError(t, cluster.Compact(last))
	reached := int64(1)
	for {
		resp, ok := next(t, slow)
		require.True(t, ok)
		if resp.Err() != nil {
			require.Equal(t, rpctypes.ErrCompacted, resp.Err())
			require.Equal(t, last, resp.CompactRevision)
			require.Contains(t, resp.CancelReason, "MaxWatchBufferBytes")
			require.Contains(t, resp.CancelReason, fmt.Sprint(slowBuffer))
			break
		}
		require.Len(t, resp.Events, 1)
		reached++
		require.Equal(t, reached, resp.Events[0].Kv.ModRevision)
	}
	requireClosed(t, slow)
	require.Greater(t, reached, int64(slowBuffer/(slowValue+1<<10)), "each event has an overhead")
	require.Less(t, reached, int64(2*slowBuffer/slowValue), "the buffer is bounded")
}

// TestWatchBlockedSend has a server that does not read the stream, so that sending blocks. Every
// call returns when its own context ends, and callers on other streams are not affected.
func TestWatchBlockedSend(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	release := make(chan struct{})
	cluster.Once("Watch", func(call *fakeetcd.Call) {
		assert.NoError(t, call.Hold(release))
		call.ResetStream(fakeetcd.ResetRefused)
	})
	large := strings.Repeat("x", 1<<20) // far more than the window of a stream
	patient := startWatch(clienttest.Within(t), c, large)
	require.NoError(t, cluster.Wait(clienttest.Within(t), "Watch", 1))
	for i := range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		requireClosed(t, started(t, startWatch(ctx, c, fmt.Sprintf("%s%d", large, i))))
		require.NoError(t, c.RequestProgress(clienttest.Within(t)))
		cancel()
	}
	other := c.Watch(metadata.AppendToOutgoingContext(clienttest.Within(t), "stream", "other"), "k")
	requireRevs(t, other, 2, put(t, cluster, "k", 1))
	_, err := c.Get(clienttest.Within(t), "k")
	require.NoError(t, err)

	close(release)
	last := put(t, cluster, large, 1)
	w := started(t, patient)
	last = max(last, put(t, cluster, large, 1))
	_, others := readTo(t, w, last)
	for _, other := range others {
		require.Contains(t, other, "progress", "the requested progress")
	}
}

// contextUntil returns a context that the test ends.
func contextUntil(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(clienttest.Within(t))
	t.Cleanup(cancel)
	return ctx, cancel
}
