package lab_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	quorate "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
)

// delivery is what a watch of either client delivered.
type delivery struct {
	events []*mvccpb.Event
	err    error
}

// watchFunc watches a key with one of the clients.
type watchFunc func(ctx context.Context, key string, rev int64) <-chan delivery

// watchClients are the clients that watch through a proxy. The official one is the control: what it is not delivered
// either, the proxy has lost.
var watchClients = map[string]func(t *testing.T, endpoint string) watchFunc{
	"official": func(t *testing.T, endpoint string) watchFunc {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return func(ctx context.Context, key string, rev int64) <-chan delivery {
			return relay(c.Watch(ctx, key, clientv3.WithRev(rev)),
				func(r clientv3.WatchResponse) delivery { return delivery{r.Events, r.Err()} })
		}
	},
	"Quorate": func(t *testing.T, endpoint string) watchFunc {
		c, err := quorate.New(quorate.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return func(ctx context.Context, key string, rev int64) <-chan delivery {
			return relay(c.Watch(ctx, key, quorate.WithRev(rev)),
				func(r quorate.WatchResponse) delivery { return delivery{r.Events, r.Err()} })
		}
	},
}

// relay passes a channel on until it is closed.
func relay[R any](from <-chan R, open func(R) delivery) <-chan delivery {
	to := make(chan delivery)
	go func() {
		defer close(to)
		for r := range from {
			to <- open(r)
		}
	}()
	return to
}

// TestWatchThroughProxy watches through etcd's gRPC proxy, which ignores the ids that clients choose, makes one watch of
// several, and answers for the server where it does.
//
// Backlogs stay below a thousand revisions. The server delivers longer ones in parts, each with the revision of its store
// in the header; the proxy takes that for what it has delivered when it makes one watch of two, and then leaves out what
// is between. With a backlog of four thousand the official client missed up to half of it in one of five attempts.
func TestWatchThroughProxy(t *testing.T) {
	const watches, history = 200, 4
	for _, test := range []struct {
		name string
		keys int // the number of different keys
		from int // the number of revisions that a watch of a key goes back; 0 watches from now on
	}{
		{"distinct keys, from now on", watches, 0},
		{"distinct keys, from a revision", watches, 3},
		{"one key, from now on", 1, 0},
		{"one key, from a revision", 1, 3},
		{"some keys, from different revisions", 10, -1},
	} {
		for name, connect := range watchClients {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				cluster := start(t, lab.Config{Members: 1})
				p := startProxy(t, cluster)
				run := &proxyRun{t: t, writer: dial(t, cluster), watch: connect(t, p.Endpoint()), keys: test.keys}
				for range history {
					run.putAll()
				}
				run.startAll(watches, test.from)
				run.putAll()
				run.putAll()
				run.expectAll("before")

				require.NoError(t, p.Kill())
				run.putAll()
				require.NoError(t, p.Restart(within(t, soon)))
				run.putAll()
				run.expectAll("after a restart")
				run.endAll()
			})
		}
	}
}

// proxyRun watches keys through a proxy while a writer puts them.
type proxyRun struct {
	t      *testing.T
	writer *clientv3.Client
	watch  watchFunc
	keys   int

	written [][]int64 // by key, the revisions
	watches []*proxyWatch
	cancel  context.CancelFunc
}

// proxyWatch is one watch, and the index of the first revision of its key that it has yet to see.
type proxyWatch struct {
	key, next int
	events    <-chan delivery
}

func (r *proxyRun) name(key int) string { return fmt.Sprintf("key/%03d", key) }

// putAll puts every key once.
func (r *proxyRun) putAll() {
	r.t.Helper()
	if r.written == nil {
		r.written = make([][]int64, r.keys)
	}
	for key := range r.keys {
		resp, err := r.writer.Put(within(r.t, soon), r.name(key), "v")
		require.NoError(r.t, err)
		r.written[key] = append(r.written[key], resp.Header.Revision)
	}
}

// startAll starts n watches at once, over the keys in turn. They begin back revisions of their key ago; if that is negative
// each begins elsewhere.
func (r *proxyRun) startAll(n, back int) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.t.Cleanup(cancel)
	r.watches = make([]*proxyWatch, n)
	var started sync.WaitGroup
	for i := range n {
		key, back := i%r.keys, back
		if back < 0 {
			back = i / r.keys % 5
		}
		w := &proxyWatch{key: key, next: len(r.written[key]) - back}
		r.watches[i] = w
		var rev int64
		if back > 0 {
			rev = r.written[key][w.next]
		}
		started.Go(func() { w.events = r.watch(ctx, r.name(key), rev) })
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
			case d, open := <-w.events:
				require.True(r.t, open, "%s: watch %d ended", when, i)
				require.NoError(r.t, d.err, "%s: watch %d", when, i)
				for _, event := range d.events {
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
			var d delivery
			select {
			case d, open = <-w.events:
				assert.Empty(r.t, d.events, "watch %d repeats events", i)
			case <-timeout:
				require.FailNow(r.t, "a watch has not ended", "watch %d", i)
			}
		}
	}
}
