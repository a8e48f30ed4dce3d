package lab_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	quorate "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// TestWatchThroughProxy watches through etcd's gRPC proxy, which ignores the ids that clients choose, makes one watch of
// several, and answers for the server where it does.
//
// Backlogs stay below a thousand revisions. The server delivers longer ones in parts, each with the revision of its store
// in the header; the proxy takes that for what it has delivered when it makes one watch of two, and then leaves out what
// is between. With a backlog of four thousand the official client missed up to half of it in one of five attempts.
func TestWatchThroughProxy(t *testing.T) {
	const watches, history = 140, 4
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
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cluster := start(t, lab.Config{Members: 1})
			p := startProxy(t, cluster)
			watcher := labtest.Client(t, quorate.Config{Endpoints: []string{p.Endpoint()}})
			run := &proxyRun{t: t, writer: dial(t, cluster), watcher: watcher, keys: test.keys}
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
	keys    int

	written [][]int64 // by key, the revisions
	watches []*proxyWatch
	cancel  context.CancelFunc
}

// proxyWatch is one watch, and the index of the first revision of its key that it has yet to see.
type proxyWatch struct {
	key, next int
	events    quorate.WatchChan
}

func (r *proxyRun) name(key int) string { return fmt.Sprintf("key/%03d", key) }

// putAll puts every key once.
func (r *proxyRun) putAll() {
	r.t.Helper()
	if r.written == nil {
		r.written = make([][]int64, r.keys)
	}
	for key := range r.keys {
		resp, err := r.writer.Put(grpctest.Within(r.t, soon), r.name(key), "v")
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
