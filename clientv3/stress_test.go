package clientv3_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/pause"
)

// Close ends everything that is in progress: no call hangs, no goroutine is left, and there is no
// race.
func TestCloseUnderLoad(t *testing.T) {
	cluster := clienttest.Start(t, 3)
	for range 3 {
		c, err := New(Config{
			Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop(),
			AutoSyncInterval: time.Millisecond,
		})
		require.NoError(t, err)
		stop := make(chan struct{})
		var work sync.WaitGroup
		for _, step := range steps(cluster, c) {
			work.Go(func() {
				for !pause.Closed(stop) {
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(40*time.Millisecond))
					step(ctx)
					cancel()
				}
			})
		}
		time.Sleep(300 * time.Millisecond)
		require.NoError(t, c.Close())
		close(stop)
		work.Wait() // a call that hangs is in the stacks that the timeout of the tests prints
	}
}

func steps(cluster *fakeetcd.Cluster, c *Client) []func(context.Context) {
	return []func(context.Context){
		func(context.Context) {
			c.SetEndpoints(cluster.Endpoints()[:rand.N(4)]...)
			time.Sleep(time.Millisecond)
		},
		func(context.Context) {
			cluster.Member(rand.N(3)).BreakConnections()
			time.Sleep(3 * time.Millisecond)
		},
		func(ctx context.Context) { _, _ = c.Status(ctx, cluster.Endpoints()[rand.N(3)]) },
		func(ctx context.Context) {
			if stream, err := c.GetStream(ctx, "k", WithPrefix()); err == nil {
				_, _ = GetStreamToGetResponse(stream)
			}
		},
		func(ctx context.Context) {
			if snapshot, err := c.Snapshot(ctx); err == nil {
				_ = snapshot.Close()
			}
		},
		func(ctx context.Context) { _ = c.Sync(ctx) },
		func(ctx context.Context) { _, _ = c.Grant(ctx, 10) },
		func(ctx context.Context) { _, _ = c.Put(ctx, "k", "v") },
		func(ctx context.Context) { _, _ = c.Get(ctx, "k") },
	}
}
