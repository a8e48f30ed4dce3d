package lab_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	quorate "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/etcd34"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func startProxy(t *testing.T, c *lab.Cluster) *lab.Member {
	t.Helper()
	p, err := lab.StartProxy(grpctest.Within(t, 2*soon), c, false)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p.Members()[0]
}

func TestProxy(t *testing.T) {
	for name, binary := range map[string]func(etcd34.TB) string{
		"built in": func(etcd34.TB) string { return "" },
		"etcd 3.4": etcd34.Path,
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, lab.Config{Members: 1, Binary: binary(t)})
			p := startProxy(t, c)
			client := dial(t, c, p.Endpoint())
			put(t, client, "k", "v")
			requireValue(t, client, "k", "v")

			assert.ErrorIs(t, p.Restart(grpctest.Within(t, soon)), lab.ErrRunning)
			endpoint, pid := p.Endpoint(), p.PID()
			require.NoError(t, p.Kill())
			requireNoProcess(t, pid)
			require.NoError(t, p.Kill(), "second kill")
			require.NoError(t, p.Restart(grpctest.Within(t, soon)))
			assert.Equal(t, endpoint, p.Endpoint())
			requireValue(t, client, "k", "v")
		})
	}
}

func TestStartProxyErrors(t *testing.T) {
	c := start(t, lab.Config{Members: 1, TLS: true})
	_, err := lab.StartProxy(grpctest.Within(t, soon), c, false)
	require.ErrorContains(t, err, "Config.TLS")

	c = start(t, lab.Config{Members: 1})
	require.NoError(t, c.Members()[0].Kill())
	_, err = lab.StartProxy(grpctest.Within(t, hang), c, false)
	require.ErrorContains(t, err, "does not serve")
}

// TestLeaseThroughProxy keeps leases alive through etcd's gRPC proxy, which answers a
// keepalive only when it renews the lease by itself the next time: at once on a new
// stream, and up to a third of the TTL later on an old one. The client has to find out
// that this is no reason to open another stream. A TTL of 3 s or less is too short: the
// proxy checks every 500 ms which renewals are due, so that an answer may come after the time
// for which the previous one proved the lease.
func TestLeaseThroughProxy(t *testing.T) {
	t.Parallel()
	cluster := start(t, lab.Config{Members: 1})
	p := startProxy(t, cluster)
	const ttl, runs = 24, 60 * time.Second
	var streams atomic.Int64
	c := labtest.Client(t, quorate.Config{
		Endpoints: []string{p.Endpoint()}, DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(countStreams(&streams))},
	})
	granted, err := c.Grant(grpctest.Within(t, soon), ttl)
	require.NoError(t, err)
	var m quorate.LeaseMonitor
	ctx := grpctest.Within(t, runs)
	answers, err := c.KeepAlive(quorate.WithLeaseMonitor(ctx, &m), granted.ID)
	require.NoError(t, err)
	n := 0
	for range answers {
		n++
	}
	t.Logf("%d answers on %d streams", n, streams.Load())
	require.ErrorIs(t, m.Err(), context.DeadlineExceeded, "it was kept alive to the end")
	require.GreaterOrEqual(t, n, int(runs.Seconds())/ttl)
	require.LessOrEqual(t, streams.Load(), int64(4))
	left, err := c.TimeToLive(grpctest.Within(t, soon), granted.ID)
	require.NoError(t, err)
	require.Positive(t, left.TTL)
}

// countStreams counts the streams that a client opens.
func countStreams(n *atomic.Int64) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		n.Add(1)
		return open(ctx, desc, cc, method, opts...)
	}
}

// TestWatchThroughProxy watches through etcd's gRPC proxy, which ignores the ids that clients choose, makes one watch of
// several, and answers for the server where it does.
//
// Backlogs stay below a thousand revisions. The server delivers longer ones in parts, each with the revision of its store
// in the header. When the proxy makes one watch of two, it takes that revision for the last one that it has delivered, and
// leaves out the events between. With a backlog of four thousand the official client missed up to half of it in one of five attempts.
func TestWatchThroughProxy(t *testing.T) {
	const watches, history = 140, 4
	cluster := start(t, lab.Config{Members: 1})
	for _, test := range []struct {
		name string
		keys int // the number of different keys
		from int // the number of revisions that a watch of a key goes back; 0 watches from now on, -1 is another number for each watch
	}{
		{"distinct keys, from now on", watches, 0},
		{"distinct keys, from a revision", watches, 3},
		{"one key, from now on", 1, 0},
		{"one key, from a revision", 1, 3},
		{"some keys, from different revisions", 10, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := startProxy(t, cluster)
			watcher := labtest.Client(t, quorate.Config{Endpoints: []string{p.Endpoint()}})
			run := &proxyRun{t: t, writer: dial(t, cluster), watcher: watcher, prefix: test.name, written: make([][]int64, test.keys)}
			for range history {
				run.putAll()
			}
			run.startAll(watches, test.from)
			run.putAll()
			run.putAll()
			run.expectAll("before")

			require.NoError(t, p.Kill())
			run.putAll()
			require.NoError(t, p.Restart(grpctest.Within(t, soon)))
			run.putAll()
			run.expectAll("after a restart")
			run.endAll()
		})
	}
}

// proxyRun watches keys through a proxy while a writer puts them.
type proxyRun struct {
	t       *testing.T
	writer  *clientv3.Client
	watcher *quorate.Client
	prefix  string

	written [][]int64 // by key, the revisions
	watches []*proxyWatch
	cancel  context.CancelFunc
}

// proxyWatch is one watch, and the index of the first revision of its key that it has yet to see.
type proxyWatch struct {
	key, next int
	events    quorate.WatchChan
}

func (r *proxyRun) name(key int) string { return fmt.Sprintf("%s/%03d", r.prefix, key) }

// putAll puts every key once.
func (r *proxyRun) putAll() {
	r.t.Helper()
	for key := range r.written {
		resp, err := r.writer.Put(grpctest.Within(r.t, soon), r.name(key), "v")
		require.NoError(r.t, err)
		r.written[key] = append(r.written[key], resp.Header.Revision)
	}
}

// startAll starts n watches at once, over the keys in turn. They begin back revisions of their key ago, or, if back is
// negative, each a different number of revisions.
func (r *proxyRun) startAll(n, back int) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.t.Cleanup(cancel)
	r.watches = make([]*proxyWatch, n)
	var started sync.WaitGroup
	for i := range n {
		key, back := i%len(r.written), back
		if back < 0 {
			back = i / len(r.written) % 5
		}
		w := &proxyWatch{key: key, next: len(r.written[key]) - back}
		r.watches[i] = w
		var rev int64
		if back > 0 {
			rev = r.written[key][w.next]
		}
		started.Go(func() { w.events = r.watcher.Watch(ctx, r.name(key), quorate.WithRev(rev)) })
	}
	started.Wait()
}

// expectAll reads what every watch has to see, and nothing else.
func (r *proxyRun) expectAll(when string) {
	r.t.Helper()
	timeout := time.After(soon)
	for i, w := range r.watches {
		want := r.written[w.key][w.next:]
		var got []int64
		for len(got) < len(want) {
			select {
			case resp, open := <-w.events:
				require.True(r.t, open, "%s: watch %d ended", when, i)
				require.NoError(r.t, resp.Err(), "%s: watch %d", when, i)
				for _, event := range resp.Events {
					require.Equal(r.t, r.name(w.key), string(event.Kv.Key), "%s: watch %d", when, i)
					got = append(got, event.Kv.ModRevision)
				}
			case <-timeout:
				require.Equal(r.t, want, got, "%s: watch %d misses events", when, i)
			}
		}
		require.Equal(r.t, want, got, "%s: watch %d", when, i)
		w.next += len(want)
	}
}

// endAll ends the watches, which must not bring anything more.
func (r *proxyRun) endAll() {
	r.t.Helper()
	r.cancel()
	timeout := time.After(soon)
	for i, w := range r.watches {
		for open := true; open; {
			var resp quorate.WatchResponse
			select {
			case resp, open = <-w.events:
				assert.Empty(r.t, resp.Events, "watch %d repeats events", i)
			case <-timeout:
				require.FailNow(r.t, "a watch has not ended", "watch %d", i)
			}
		}
	}
}
