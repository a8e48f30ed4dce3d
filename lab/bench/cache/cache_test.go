// Package cache_test measures package clientv3/cache over one real member beside plain gets.
//
//	go test ./lab/bench/cache -run '^$' -bench . -benchtime 3s -count 5
package cache_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/onemember"
)

var endpoint string

func TestMain(m *testing.M) {
	onemember.Main(m, func(c *lab.Cluster) { endpoint = c.Members()[0].DirectEndpoint() })
}

func newClient(b *testing.B) *clientv3.Client {
	b.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	require.NoError(b, err)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// callers is how many read at the same time.
const callers = 32

// BenchmarkLinearizable reads one of 1,000 keys of 100 bytes, while a hundred other keys a second are written.
func BenchmarkLinearizable(b *testing.B) {
	writes := newClient(b)
	for i := range 1000 {
		_, err := writes.Put(b.Context(), fmt.Sprintf("read/%04d", i), string(make([]byte, 100)))
		require.NoError(b, err)
	}
	defer unrelatedWrites(b, writes, 100)()
	b.Run("plain", func(b *testing.B) { read(b, newClient(b).KV) })
	b.Run("cache", func(b *testing.B) {
		c, err := cache.New(newClient(b), cache.Config{Prefixes: []string{"read/"}})
		require.NoError(b, err)
		defer c.Close()
		require.NoError(b, c.WaitSynced(b.Context()))
		before := c.Stats()
		read(b, c)
		s := c.Stats()
		b.ReportMetric(float64(s.Floors-before.Floors)/b.Elapsed().Seconds(), "floors/s")
		b.ReportMetric(float64(s.ProgressRequests-before.ProgressRequests)/b.Elapsed().Seconds(), "progress/s")
		b.ReportMetric(float64(s.Misses), "misses")
	})
}

func read(b *testing.B, kv clientv3.KV) {
	b.SetParallelism(callers / runtime.GOMAXPROCS(0))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := kv.Get(context.Background(), fmt.Sprintf("read/%04d", i%1000)); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
}

// unrelatedWrites writes so many keys a second until the function that it returns is called.
func unrelatedWrites(b *testing.B, c *clientv3.Client, perSecond int) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			if _, err := c.Put(ctx, "other", "value"); err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
