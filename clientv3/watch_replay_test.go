package clientv3_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// backlog is how many revisions a watch is behind in these tests: enough that the client reads several
// parts of the history concurrently.
const backlog = 8_000

// startBehind starts a cluster with a backlog of puts, of ten keys in turn.
func startBehind(t *testing.T) (cluster *fakeetcd.Cluster, c *Client, last int64) {
	t.Helper()
	cluster, c = clienttest.StartClient(t, 3)
	for i := range backlog {
		last = clienttest.Put(t, cluster, fmt.Sprintf("k%d", i%10), fmt.Sprint(i))
	}
	return cluster, c, last
}

// onEvents calls f with each response that has events, on all streams, and its number.
func onEvents(cluster *fakeetcd.Cluster, f func(call *fakeetcd.Call, n int)) {
	var n atomic.Int32
	cluster.On("Watch", func(call *fakeetcd.Call) {
		call.OnSend(func(resp proto.Message) bool {
			if len(resp.(*pb.WatchResponse).Events) > 0 {
				f(call, int(n.Add(1)))
			}
			return true
		})
	})
}

// TestWatchReplay reads a backlog over streams that break. It is delivered as by a single watcher: complete, in order, once.
func TestWatchReplay(t *testing.T) {
	cluster, c, last := startBehind(t)
	onEvents(cluster, func(call *fakeetcd.Call, n int) {
		switch {
		case n == 3:
			call.BreakConn()
		case n%5 == 0 && n <= 20:
			call.ResetStream(fakeetcd.ResetRefused)
		}
	})
	w := c.Watch(clienttest.Within(t), "k", WithPrefix(), WithRev(2))
	requireRevs(t, w, 2, last)
	requireRevs(t, w, last+1, put(t, cluster, "k", 3))
}

// TestWatchReplayOptions reads a backlog with each option that changes what is delivered.
func TestWatchReplayOptions(t *testing.T) {
	tests := map[string]struct {
		opts []OpOption
		want func(i int) bool // the i-th put
	}{
		"one key":  {[]OpOption{WithRev(2)}, func(i int) bool { return i%10 == 1 }},
		"range":    {[]OpOption{WithRev(2), WithRange("k4")}, func(i int) bool { return i%10 >= 1 && i%10 < 4 }},
		"late":     {[]OpOption{WithRev(2_000), WithFromKey()}, func(i int) bool { return i >= 1_998 && i%10 >= 1 }},
		"prev":     {[]OpOption{WithRev(2), WithFromKey(), WithPrevKV()}, func(i int) bool { return i%10 >= 1 }},
		"fragment": {[]OpOption{WithRev(2), WithFromKey(), WithFragment()}, func(i int) bool { return i%10 >= 1 }},
	}
	cluster, c, _ := startBehind(t)
	require.NoError(t, cluster.SetWatchOptions(fakeetcd.WatchOptions{FragmentBytes: 5000}))
	end := clienttest.Put(t, cluster, "k1", "end")
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var want []int64
			for i := range backlog {
				if tt.want(i) {
					want = append(want, int64(i+2))
				}
			}
			revs, others := readTo(t, c.Watch(clienttest.Within(t), "k1", tt.opts...), end)
			require.Empty(t, others)
			require.Equal(t, append(want, end), revs)
		})
	}
}
