package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// watchesOf counts the watches that servers create on streams that follow.
func watchesOf(cluster *fakeetcd.Cluster) *atomic.Int64 {
	var n atomic.Int64
	onWatch(cluster, func(_ *fakeetcd.Member, resp *pb.WatchResponse) bool {
		if resp.Created {
			n.Add(1)
		}
		return true
	})
	return &n
}

// reading is a watch and what it has delivered.
type reading struct {
	op     clientv3.Op
	ch     clientv3.WatchChan
	start  int64 // 0 until known
	most   int64 // start is at most that
	events []*clientv3.Event
	ended  *clientv3.WatchResponse
	header int64
}

func (r *reading) String() string {
	return fmt.Sprintf("[%q, %q) from %d, no put %v, no delete %v", r.op.KeyBytes(), r.op.RangeBytes(), r.op.Rev(), r.op.IsFilterPut(), r.op.IsFilterDelete())
}

// watchOf draws a watch of keys below a/, with options of all kinds.
func watchOf(r *rand.Rand, rev int64) clientv3.Op {
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify(), clientv3.WithPrevKV()}
	key := keyOf(r)
	switch r.IntN(4) {
	case 0:
		key = "a/"
		opts = append(opts, clientv3.WithPrefix())
	case 1:
		opts = append(opts, clientv3.WithPrefix())
	case 2:
		key = "a/"
		opts = append(opts, clientv3.WithRange(keyOf(r)+"\x01"))
	}
	if r.IntN(3) > 0 {
		opts = append(opts, clientv3.WithRev(1+r.Int64N(rev+3)))
	}
	switch r.IntN(5) {
	case 0:
		opts = append(opts, clientv3.WithFilterPut())
	case 1:
		opts = append(opts, clientv3.WithFilterDelete())
	}
	return clientv3.OpWatch(key, opts...)
}

// read takes a response. The order, and the revision of the header, are right.
func (r *reading) read(t *testing.T, resp clientv3.WatchResponse) {
	t.Helper()
	switch {
	case resp.Err() != nil:
		r.ended = &resp
		return
	case resp.Created:
		if r.start == 0 {
			r.start = resp.Header.Revision + 1
			require.LessOrEqual(t, r.start, r.most, "a watch from now on misses what follows")
		}
	case len(resp.Events) > 0:
		require.Greater(t, resp.Events[0].Kv.ModRevision, r.header, "%v: a header's revision says that this was delivered", r)
		r.header = resp.Header.Revision
		require.LessOrEqual(t, resp.Events[len(resp.Events)-1].Kv.ModRevision, r.header)
	case resp.IsProgressNotify():
		require.GreaterOrEqual(t, resp.Header.Revision, r.header)
		r.header = resp.Header.Revision
	}
	for _, ev := range resp.Events {
		r.events = append(r.events, proto.CloneOf(ev))
	}
}

// expected returns what the watch has to deliver of all events.
func (r *reading) expected(all []*clientv3.Event) (want []*clientv3.Event) {
	for _, ev := range all {
		key, end := string(ev.Kv.Key), string(r.op.RangeBytes())
		in := key == string(r.op.KeyBytes())
		if end != "" {
			in = key >= string(r.op.KeyBytes()) && key < end
		}
		filtered := ev.Type == clientv3.EventTypePut && r.op.IsFilterPut() || ev.Type == clientv3.EventTypeDelete && r.op.IsFilterDelete()
		if in && !filtered && ev.Kv.ModRevision >= r.start {
			want = append(want, ev)
		}
	}
	return want
}

// FuzzWatch opens watches of all kinds, read quickly and slowly, over a cache that keeps few events, among writes of all kinds
// and compactions. Each delivers the history of the store, in order and once, or ends because that is compacted.
func FuzzWatch(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 2))
		cluster, client := clienttest.StartClient(t, 1)
		ctx := clienttest.Within(t)
		c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}, MaxEvents: 10})
		awaitServing(t, c, "a/")
		w := c.Watcher()
		lease := clienttest.Must(client.Grant(ctx, 60))
		all := client.Watch(ctx, "a/", clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithRev(1))
		var events []*clientv3.Event
		readTo := func(rev int64) {
			for len(events) == 0 || events[len(events)-1].Kv.ModRevision < rev {
				resp, ok := <-all
				require.True(t, ok, "the watch has ended")
				events = append(events, resp.Events...)
			}
		}
		var watches []*reading
		var compacted int64
		for i := range 80 {
			write(t, r, client, lease.ID)
			if i%5 == 0 {
				op := watchOf(r, cluster.Revision())
				rd := &reading{op: op, start: op.Rev(), most: cluster.Revision() + 1}
				rd.ch = w.Watch(ctx, string(op.KeyBytes()), func(o *clientv3.Op) { *o = op })
				watches = append(watches, rd)
			}
			if i == 50 {
				readTo(clienttest.Put(t, cluster, "a/", "with the previous value, which a compaction takes"))
				compacted = cluster.Revision() - r.Int64N(30)
				clienttest.Must(client.Compact(ctx, compacted))
			}
			if len(watches) > 0 {
				rd := watches[r.IntN(len(watches))]
				for range r.IntN(8) {
					select {
					case resp := <-rd.ch:
						rd.read(t, resp)
					default:
					}
				}
			}
		}
		readTo(clienttest.Put(t, cluster, "a/", "last"))
		for _, rd := range watches {
			for rd.start == 0 || rd.ended == nil && len(rd.events) < len(rd.expected(events)) {
				select {
				case resp := <-rd.ch:
					rd.read(t, resp)
				case <-ctx.Done():
					require.Fail(t, "a watch misses events", "seed %d: %v: %d of %d", seed, rd, len(rd.events), len(rd.expected(events)))
				}
			}
			want := rd.expected(events)
			if rd.ended != nil {
				require.Equal(t, rpctypes.ErrCompacted, rd.ended.Err())
				want = want[:len(rd.events)]
			}
			for i, ev := range rd.events {
				if ev.PrevKv == nil && want[i].PrevKv.GetModRevision() < compacted { // as with any watch
					ev.PrevKv = want[i].PrevKv
				}
			}
			same := slices.EqualFunc(want, rd.events, func(a, b *clientv3.Event) bool { return proto.Equal(a, b) }) // cmp.Diff takes long
			require.True(t, same, "seed %d: %v: got %v, want %v", seed, rd, rd.events, want)
		}
	})
}

// TestWatchesShareOne opens many watches before and after events. They cost the server one watch.
func TestWatchesShareOne(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		asked := watchesOf(cluster)
		c := serve(t, client, cache.Config{})
		w := c.Watcher()
		var watches []clientv3.WatchChan
		for i := range 100 {
			watches = append(watches, w.Watch(t.Context(), fmt.Sprintf("a/%d", i%10), clientv3.WithPrefix()))
		}
		first := clienttest.Put(t, cluster, "a/7", "v")
		clienttest.Put(t, cluster, "a/8", "v")
		late := w.Watch(t.Context(), "a/", clientv3.WithPrefix(), clientv3.WithRev(first))
		for i, ch := range watches {
			if i%10 == 7 {
				require.Equal(t, first, (<-ch).Events[0].Kv.ModRevision)
			}
		}
		ev := (<-late).Events[0]
		require.Equal(t, "a/7", string(ev.Kv.Key))
		clear(ev.Kv.Value) // which no caller may; reads do not show it
		resp := clienttest.Get(t, c, "a/7")
		require.Equal(t, "v", string(resp.Kvs[0].Value))
		require.Equal(t, "a/8", string((<-late).Events[0].Kv.Key))
		require.EqualValues(t, 1, asked.Load())
		require.EqualValues(t, 101, c.Stats().Watches)
		require.Zero(t, c.Stats().Behind)
		require.NoError(t, w.Close())
		synctest.Wait()
		require.Zero(t, c.Stats().Watches)
		_, open := <-late
		require.False(t, open)
		require.Equal(t, cache.ErrClosed, w.RequestProgress(t.Context()))
		_, open = <-w.Watch(t.Context(), "a/1")
		require.False(t, open)
		c.Close()
	})
}

// TestASlowWatch leaves the window, goes on at the server, and comes back. It delays no other.
func TestASlowWatch(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		asked := watchesOf(cluster)
		c := serve(t, client, cache.Config{MaxEvents: 10})
		w := c.Watcher()
		slow := w.Watch(t.Context(), "a/", clientv3.WithPrefix())
		quick := w.Watch(t.Context(), "a/", clientv3.WithPrefix())
		for range 100 {
			rev := clienttest.Put(t, cluster, "a/1", "v")
			require.Equal(t, rev, (<-quick).Events[0].Kv.ModRevision)
		}
		require.EqualValues(t, 1, asked.Load())
		for rev := int64(2); rev <= 101; {
			for _, ev := range (<-slow).Events {
				require.Equal(t, rev, ev.Kv.ModRevision)
				rev++
			}
		}
		require.EqualValues(t, 2, asked.Load())
		require.EqualValues(t, 1, c.Stats().Behind)
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		rev := clienttest.Put(t, cluster, "a/2", "v")
		require.Equal(t, rev, (<-slow).Events[0].Kv.ModRevision)
		require.EqualValues(t, 2, asked.Load(), "it is served from the window again")
		c.Close()
	})
}

// TestWatchesMeetACompaction compacts revisions that the cache's watch has missed. Every watch ends as the server's would, and
// later watches begin at the present state.
func TestWatchesMeetACompaction(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	clienttest.Put(t, cluster, "a/1", "v")
	c := newServing(t, client)
	w := c.Watcher()
	var watches []clientv3.WatchChan
	for range 10 {
		watches = append(watches, w.Watch(clienttest.Within(t), "a/", clientv3.WithPrefix()))
	}
	missRevisions(t, cluster, func() { clienttest.Put(t, cluster, "a/1", "w") })
	for _, ch := range watches {
		resp := <-ch
		require.Equal(t, rpctypes.ErrCompacted, resp.Err())
		require.Positive(t, resp.CompactRevision)
		_, open := <-ch
		require.False(t, open)
	}
	awaitServing(t, c, "a/1")
	ch := w.Watch(clienttest.Within(t), "a/", clientv3.WithPrefix())
	rev := clienttest.Put(t, cluster, "a/1", "x")
	require.Equal(t, rev, (<-ch).Events[0].Kv.ModRevision)
}

// TestProgressOfLocalWatches requests progress once for all, and gets the revision of what is not cached.
func TestProgressOfLocalWatches(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		c := serve(t, client, cache.Config{})
		w := c.Watcher()
		one, two := w.Watch(t.Context(), "a/1"), w.Watch(t.Context(), "a/", clientv3.WithPrefix())
		clienttest.Put(t, cluster, "a/2", "v")
		require.Len(t, (<-two).Events, 1)
		rev := clienttest.Put(t, cluster, "b", "v")
		require.NoError(t, w.RequestProgress(t.Context()))
		for _, ch := range []clientv3.WatchChan{one, two} {
			resp := <-ch
			require.True(t, resp.IsProgressNotify())
			require.True(t, resp.IsProven())
			require.Equal(t, rev, resp.Header.Revision)
		}
		c.Close()
	})
}

// TestWatchesThatAreNotCached go to the client's Watcher.
func TestWatchesThatAreNotCached(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		asked := watchesOf(cluster)
		c := serve(t, client, cache.Config{})
		w := c.Watcher()
		ctx, cancel := context.WithCancel(t.Context())
		var watches []clientv3.WatchChan
		for range 2 {
			watches = append(watches, w.Watch(ctx, "a", clientv3.WithPrefix()))
		}
		watches = append(watches,
			w.Watch(clientv3.WithRequireLeader(ctx), "a/1"),
			w.Watch(metadata.AppendToOutgoingContext(ctx, "token", "another user's"), "a/1"))
		require.EqualValues(t, 1+len(watches), asked.Load())
		rev := clienttest.Put(t, cluster, "a/1", "v")
		for _, ch := range watches {
			require.Equal(t, rev, (<-ch).Events[0].Kv.ModRevision)
		}
		cancel()
		for _, ch := range watches {
			_, open := <-ch
			require.False(t, open)
		}
		c.Close()
	})
}

// TestWatchesBeforeTheCacheIsLoaded are served by the server, get each progress that is requested, miss nothing, and share one watch
// afterwards.
func TestWatchesBeforeTheCacheIsLoaded(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		refusal := cluster.On("Range", func(call *fakeetcd.Call) { call.Answer(nil, errDenied) })
		c := newUnsynced(t, client, cache.Config{Prefixes: []string{"a/"}})
		synctest.Wait()
		w, began := c.Watcher(), time.Now()
		ch := w.Watch(t.Context(), "a/", clientv3.WithPrefix())
		synctest.Wait()
		for range 2 {
			require.NoError(t, w.RequestProgress(t.Context()))
			resp := after(t, ch)
			require.True(t, resp.IsProgressNotify())
		}
		require.Zero(t, time.Since(began), "it does not wait for a prefix that is denied")
		first := clienttest.Put(t, cluster, "a/1", "v")
		require.Equal(t, first, (<-ch).Events[0].Kv.ModRevision)
		require.EqualValues(t, 1, c.Stats().Behind)
		refusal.Remove()
		time.Sleep(5 * time.Minute)
		require.Zero(t, c.Stats().Events)
		second := clienttest.Put(t, cluster, "a/1", "w")
		require.Equal(t, second, (<-ch).Events[0].Kv.ModRevision)
		require.EqualValues(t, 1, c.Stats().Behind)
	})
}

// after returns the next response of a watch, which comes within a minute.
func after(t *testing.T, ch clientv3.WatchChan) clientv3.WatchResponse {
	t.Helper()
	select {
	case resp := <-ch:
		return resp
	case <-time.After(time.Minute):
		require.Fail(t, "the watch says nothing")
		return clientv3.WatchResponse{}
	}
}

// ends reads a watch up to its end, and returns the error.
func ends(t *testing.T, ch clientv3.WatchChan) error {
	t.Helper()
	for {
		if resp := after(t, ch); resp.Err() != nil {
			return resp.Err()
		}
	}
}

// restored is what a cluster answers that was restored from a backup and has its ID.
var restored = &pb.ResponseHeader{ClusterId: fakeetcd.ClusterID, MemberId: 1, RaftTerm: 1, Revision: 5}

// TestASlowWatchOfARestoredCluster reloads the cache while a watch is served by the server and has unread responses. The watch does not
// continue in the new history.
func TestASlowWatchOfARestoredCluster(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		c := serve(t, client, cache.Config{MaxEvents: 1})
		w := c.Watcher()
		for range 10 {
			clienttest.Put(t, cluster, "a/1", "v")
		}
		synctest.Wait()
		slow := w.Watch(t.Context(), "a/", clientv3.WithPrefix(), clientv3.WithRev(2), clientv3.WithCreatedNotify())
		synctest.Wait()
		for range 3 {
			clienttest.Put(t, cluster, "a/1", "v")
			synctest.Wait()
		}
		become(cluster, restored)
		clienttest.Get(t, c, "a/1")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 5, c.Freshness().Revision)
		require.ErrorAs(t, ends(t, slow), new(*clientv3.ClusterChangedError))
		require.EqualValues(t, 1, c.Stats().Behind)
		c.Close()
	})
}

// TestABlockedWatchOfARestoredCluster blocks a watch on its reader while a permission is withdrawn, the cluster is restored, and the cache
// is reloaded. The compaction of the old history is forgotten.
func TestABlockedWatchOfARestoredCluster(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		c := newCache(t, client, cache.Config{Prefixes: []string{"a/", "b/"}})
		clienttest.Put(t, cluster, "a/1", "v")
		synctest.Wait()
		w := c.Watcher()
		missRevisions(t, cluster, func() { clienttest.Put(t, cluster, "a/1", "w") })
		time.Sleep(time.Minute)
		for range 5 {
			clienttest.Put(t, cluster, "a/1", "v")
		}
		synctest.Wait()
		blocked := w.Watch(t.Context(), "a/", clientv3.WithPrefix())
		for range 2 {
			clienttest.Put(t, cluster, "a/1", "v")
			synctest.Wait()
		}
		refusal := deny(cluster, "a/")
		for range 4 { // floors read the prefixes in turn
			clienttest.Get(t, c, "b/1")
		}
		synctest.Wait()
		require.Equal(t, cache.Denied, c.Status()[0].State)
		refusal.Remove()
		become(cluster, restored)
		clienttest.Get(t, c, "b/1")
		time.Sleep(time.Minute)
		synctest.Wait()
		var changed *clientv3.ClusterChangedError
		require.ErrorAs(t, ends(t, blocked), &changed)
		require.EqualValues(t, 5, changed.NewRevision)
		require.Zero(t, c.Stats().Behind)
		ch := w.Watch(t.Context(), "a/", clientv3.WithPrefix(), clientv3.WithRev(3), clientv3.WithCreatedNotify())
		resp := after(t, ch)
		require.NoError(t, resp.Err())
		c.Close()
	})
}

// TestCreatedWatches opens watches before the cache is loaded. It is loaded before the server answers them.
func TestCreatedWatches(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		onWatch(cluster, func(*fakeetcd.Member, *pb.WatchResponse) bool {
			time.Sleep(10 * time.Second)
			return true
		})
		refusal := cluster.On("Range", func(call *fakeetcd.Call) { call.Answer(nil, errDenied) })
		c := newUnsynced(t, client, cache.Config{Prefixes: []string{"a/"}})
		w := c.Watcher()
		created := make(chan clientv3.WatchChan)
		for range 20 {
			go func() {
				created <- w.Watch(t.Context(), "a/", clientv3.WithPrefix(), clientv3.WithRev(2), clientv3.WithCreatedNotify())
			}()
		}
		time.Sleep(time.Second)
		refusal.Remove()
		for range 20 {
			resp := after(t, <-created)
			require.True(t, resp.Created)
		}
	})
}

// TestAnIdleWatchMissesNothing moves a watch without changes for a long time to the server, which has compacted the revisions
// in between.
func TestAnIdleWatchMissesNothing(t *testing.T) {
	for name, leave := range map[string]func(*testing.T, *fakeetcd.Cluster, *cache.Cache){
		"denied": func(t *testing.T, cluster *fakeetcd.Cluster, c *cache.Cache) {
			cluster.On("Range", func(call *fakeetcd.Call) { call.Answer(nil, errDenied) })
			_, err := c.Get(t.Context(), "a/1")
			require.Equal(t, denied, err)
		},
		"downgraded": func(_ *testing.T, cluster *fakeetcd.Cluster, _ *cache.Cache) {
			saysVersion(cluster, func() string { return "3.5.17" })
			time.Sleep(11 * time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
				c := serve(t, client, cache.Config{})
				ch := c.Watcher().Watch(t.Context(), "a/", clientv3.WithPrefix())
				require.Equal(t, clienttest.Put(t, cluster, "a/1", "v"), after(t, ch).Events[0].Kv.ModRevision)
				for range 10 {
					clienttest.Put(t, cluster, "b", "v")
				}
				clienttest.Get(t, c, "a/1")
				require.Equal(t, cluster.Revision(), c.Freshness().Revision)
				require.NoError(t, cluster.Compact(cluster.Revision()))
				leave(t, cluster, c)
				synctest.Wait()
				require.EqualValues(t, 1, c.Stats().Behind)
				rev := clienttest.Put(t, cluster, "a/1", "w")
				resp := after(t, ch)
				require.NoError(t, resp.Err())
				require.Equal(t, rev, resp.Events[0].Kv.ModRevision)
				c.Close()
			})
		})
	}
}

// TestWatchOfAKeyThatDoesNotChange is served from memory when its key changes at last, however many events there were
// for others.
func TestWatchOfAKeyThatDoesNotChange(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}, MaxEvents: 2})
		defer c.Close()
		watch := c.Watcher().Watch(clienttest.Within(t), "a/1")
		synctest.Wait()
		for i := range 10 {
			clienttest.Put(t, cluster, fmt.Sprintf("a/2/%d", i), "v")
			synctest.Wait()
		}
		rev := clienttest.Put(t, cluster, "a/1", "w")
		require.Equal(t, rev, (<-watch).Header.Revision)
		require.Zero(t, c.Stats().Behind)
	})
}
