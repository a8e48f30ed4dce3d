package clientv3_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
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

// loseAtRandom breaks each of the first streams after a random number of responses, in a random
// way.
func loseAtRandom(cluster *fakeetcd.Cluster, seed uint64) {
	const streams = 8
	ways := []func(*fakeetcd.Call){
		(*fakeetcd.Call).BreakConn,
		func(c *fakeetcd.Call) { c.ResetStream(fakeetcd.ResetInternal) },
		func(c *fakeetcd.Call) { c.ResetStream(fakeetcd.ResetRefused) },
		func(c *fakeetcd.Call) { c.ResetStream(fakeetcd.ResetCancel) },
		func(c *fakeetcd.Call) { c.ResetStream(fakeetcd.ResetEnhanceYourCalm) },
	}
	cluster.On("Watch", func(call *fakeetcd.Call) {
		if call.Number > streams {
			return
		}
		rng := rand.New(rand.NewPCG(seed, uint64(call.Number)))
		left, sendLast := rng.IntN(200), rng.IntN(2) == 0
		lose := ways[rng.IntN(len(ways))]
		call.OnSend(func(resp proto.Message) bool {
			if left--; left > 0 {
				return true
			}
			if left == 0 {
				if sendLast {
					_ = call.Send(resp)
				}
				lose(call)
			}
			return false
		})
	})
}

// TestWatchStress has many watches that start in the past, while streams are lost and revisions
// written. Each delivers every revision once and in order.
func TestWatchStress(t *testing.T) {
	const (
		watches = 10
		puts    = 250
	)
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 3)
			require.NoError(t, cluster.SetWatchOptions(fakeetcd.WatchOptions{BatchRevisions: 7, FragmentBytes: 200}))
			put(t, cluster, "k", puts)
			loseAtRandom(cluster, seed)
			var running [watches]<-chan WatchChan
			for i := range watches {
				opts := []OpOption{WithRev(int64(2 + i*puts/watches))}
				if i%2 == 0 {
					opts = append(opts, WithFragment())
				}
				running[i] = startWatch(clienttest.Within(t), c, "k", opts...)
			}
			var writing sync.WaitGroup
			writing.Go(func() {
				for range puts {
					_, _ = cluster.Put("k", "v") // does not fail
				}
			})
			for i, w := range running {
				requireRevs(t, started(t, w), int64(2+i*puts/watches), 1+2*puts)
			}
			writing.Wait()
			require.Greater(t, cluster.Count("Watch"), 4, "streams were lost")
		})
	}
}
