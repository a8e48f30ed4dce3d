package clientv3_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// loseAtRandom breaks each of the first streams after a random number of responses, in a random
// way.
func loseAtRandom(cluster *fakeetcd.Cluster, seed uint64) {
	const streams = 8
	ways := []func(*fakeetcd.Call){
		(*fakeetcd.Call).BreakConn,
		func(c *fakeetcd.Call) { c.ResetStream(fakeetcd.ResetInternal) },
		func(c *fakeetcd.Call) { c.ResetStream(fakeetcd.ResetRefused) },
		func(c *fakeetcd.Call) { c.ResetStream(fakeetcd.ResetCancel) },
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
		watches = 20
		puts    = 500
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
