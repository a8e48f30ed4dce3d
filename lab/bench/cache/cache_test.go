//go:build experiment

// Package cache_test measures package clientv3/cache over one real member beside plain gets.
//
//	for i in 1 2 3 4 5; do go test -tags experiment ./lab/bench/cache -run '^$' -bench . -benchtime 1s; done
package cache_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/bench/internal/cputime"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/internal/scrape"
)

var endpoint string

func TestMain(m *testing.M) {
	labtest.Main(m, func(c *lab.Cluster) { endpoint = c.Members()[0].DirectEndpoint() })
}

func newClient(b *testing.B) *clientv3.Client {
	b.Helper()
	return labtest.Client(b, clientv3.Config{Endpoints: []string{endpoint}})
}

// callers is how many read at the same time.
const callers = 32

// BenchmarkRead reads one of 1,000 keys of 100 bytes by 32 callers, while another key is put a hundred times a second:
// linearizably by plain gets and from the cache, and from the cache as of a second ago at most.
func BenchmarkRead(b *testing.B) {
	writes := newClient(b)
	for i := range 1000 {
		_, err := writes.Put(b.Context(), fmt.Sprintf("read/%04d", i), string(make([]byte, 100)))
		require.NoError(b, err)
	}
	defer unrelatedWrites(b, writes)()
	b.Run("plain", func(b *testing.B) { read(context.Background(), b, newClient(b).KV) })
	fromCache := func(ctx context.Context, b *testing.B) {
		c, err := cache.New(newClient(b), cache.Config{Prefixes: []string{"read/"}})
		require.NoError(b, err)
		defer c.Close()
		require.NoError(b, c.WaitSynced(b.Context()))
		before := c.Stats()
		read(ctx, b, c)
		s := c.Stats()
		b.ReportMetric(float64(s.Floors-before.Floors)/b.Elapsed().Seconds(), "floors/s")
		b.ReportMetric(float64(s.ProgressRequests-before.ProgressRequests)/b.Elapsed().Seconds(), "progress/s")
		b.ReportMetric(float64(s.Misses), "misses")
	}
	b.Run("cache", func(b *testing.B) { fromCache(context.Background(), b) })
	b.Run("stale", func(b *testing.B) { fromCache(cache.WithMaxStaleness(context.Background(), time.Second), b) })
}

func read(ctx context.Context, b *testing.B, kv clientv3.KV) {
	b.Helper()
	b.SetParallelism(callers / runtime.GOMAXPROCS(0))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := kv.Get(ctx, fmt.Sprintf("read/%04d", i%1000)); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
}

// unrelatedWrites puts a hundred times a second until the function that it returns is called.
func unrelatedWrites(b *testing.B, c *clientv3.Client) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.Tick(time.Second / 100)
		for ctx.Err() == nil {
			<-tick
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

const (
	watchers        = 1000
	eventsPerSecond = 100
)

// BenchmarkWatch lets 1,000 readers watch one prefix, in which a hundred events a second happen: by a watch at the server each, and
// from the cache. The CPU is that of this process and of the member together.
//
//	go test -tags experiment ./lab/bench/cache -run '^$' -bench Watch -benchtime 1000x
func BenchmarkWatch(b *testing.B) {
	b.Run("none", func(b *testing.B) { watch(b, newClient(b).Watcher, 0) })
	b.Run("plain", func(b *testing.B) { watch(b, newClient(b).Watcher, watchers) })
	b.Run("cache", func(b *testing.B) {
		c, err := cache.New(newClient(b), cache.Config{Prefixes: []string{"watch/"}})
		require.NoError(b, err)
		defer c.Close()
		require.NoError(b, c.WaitSynced(b.Context()))
		watch(b, c.Watcher(), watchers)
		require.Zero(b, c.Stats().Behind)
	})
}

func watch(b *testing.B, w clientv3.Watcher, watchers int) {
	b.Helper()
	writes := newClient(b)
	ctx, cancel := context.WithCancel(b.Context())
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	before := memberMetrics(b)
	var received atomic.Int64
	for range watchers {
		ch := w.Watch(ctx, "watch/", clientv3.WithPrefix())
		reading.Go(func() {
			for resp := range ch {
				received.Add(int64(len(resp.Events)))
			}
		})
	}
	tick := time.Tick(time.Second / eventsPerSecond)
	server, own := memberMetrics(b), cputime.Used()
	for i := 0; b.Loop(); i++ {
		<-tick
		_, err := writes.Put(ctx, fmt.Sprintf("watch/%03d", i%1000), string(make([]byte, 100)))
		require.NoError(b, err)
	}
	require.Eventually(b, func() bool { return received.Load() == int64(b.N*watchers) }, time.Minute, time.Millisecond)
	after := memberMetrics(b)
	client, member := (cputime.Used() - own).Seconds(), after.Sum("process_cpu_seconds_total")-server.Sum("process_cpu_seconds_total")
	b.ReportMetric(client/b.Elapsed().Seconds(), "client-cpus")
	b.ReportMetric(member/b.Elapsed().Seconds(), "server-cpus")
	b.ReportMetric((client+member)/b.Elapsed().Seconds(), "cpus")
	const open = "etcd_debugging_mvcc_watcher_total"
	b.ReportMetric(after.Sum(open)-before.Sum(open), "more-watches")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func memberMetrics(b *testing.B) scrape.Metrics {
	b.Helper()
	return scrape.Read(b.Context(), scrape.Client, endpoint)
}

const (
	relistKeys    = 20_000
	relistBytes   = 4 << 10
	relistChanged = relistKeys / 100
)

// BenchmarkRelist reads 20,000 keys of 4 KiB again, of which 1 % have changed, as a cache has to when its watch needs
// revisions that were compacted: all of them by one get, and by the cache.
func BenchmarkRelist(b *testing.B) {
	direct := newClient(b)
	value := string(make([]byte, relistBytes))
	for i := range relistKeys {
		_, err := direct.Put(b.Context(), fmt.Sprintf("relist/%05d", i), value)
		require.NoError(b, err)
	}
	var wire atomic.Int64
	client := labtest.Client(b, clientv3.Config{
		Endpoints: []string{endpoint}, DialOptions: []grpc.DialOption{grpc.WithContextDialer(countingDialer(&wire))},
	})
	b.Run("get", func(b *testing.B) {
		before := wire.Load()
		for b.Loop() {
			resp, err := client.Get(b.Context(), "relist/", clientv3.WithPrefix())
			require.NoError(b, err)
			require.EqualValues(b, relistKeys, resp.Count)
		}
		b.ReportMetric(float64(wire.Load()-before)/float64(b.N)/1e6, "MB/relist")
	})
	b.Run("cache", func(b *testing.B) {
		watches := &interrupted{Watcher: client.Watcher, compact: make(chan struct{})}
		client.Watcher = watches
		defer func() { client.Watcher = watches.Watcher }()
		resynced := make(chan cache.Resynced)
		var read int64
		for b.Loop() {
			b.StopTimer()
			// Another one each time: what is compacted again within a second pauses.
			c, err := cache.New(client, cache.Config{
				Prefixes: []string{"relist/"}, OnResync: func(r cache.Resynced) { resynced <- r },
			})
			require.NoError(b, err)
			require.NoError(b, c.WaitSynced(b.Context()))
			for i := range relistChanged {
				_, err := direct.Put(b.Context(), fmt.Sprintf("relist/%05d", i*100), value)
				require.NoError(b, err)
			}
			before := wire.Load()
			b.StartTimer()
			watches.compact <- struct{}{}
			r := <-resynced
			require.Equal(b, relistChanged, r.Changed)
			read += wire.Load() - before
			b.StopTimer()
			c.Close()
			b.StartTimer()
		}
		b.ReportMetric(float64(read)/float64(b.N)/1e6, "MB/relist")
	})
}

// interrupted is a Watcher whose watches deliver nothing, and end as after a compaction on demand.
type interrupted struct {
	clientv3.Watcher

	compact chan struct{}
}

func (w *interrupted) Watch(ctx context.Context, _ string, opts ...clientv3.OpOption) clientv3.WatchChan {
	ch := make(chan clientv3.WatchResponse, 1)
	rev := clientv3.OpWatch("", opts...).Rev()
	go func() {
		defer close(ch)
		ch <- clientv3.WatchResponse{Header: &pb.ResponseHeader{}, Created: true}
		select {
		case <-ctx.Done():
		case <-w.compact:
			ch <- clientv3.WatchResponse{Header: &pb.ResponseHeader{}, Canceled: true, CompactRevision: rev + 1}
		}
	}()
	return ch
}

// countingDialer counts what is received.
func countingDialer(n *atomic.Int64) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		return countingConn{conn, n}, err
	}
}

type countingConn struct {
	net.Conn
	n *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}
