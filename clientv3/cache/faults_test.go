package cache_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// serve makes a cache of "a/" in a bubble, and waits until its watch is created.
func serve(t *testing.T, client *clientv3.Client, cfg cache.Config) *cache.Cache {
	t.Helper()
	cfg.Prefixes = []string{"a/"}
	c := newCache(t, client, cfg)
	synctest.Wait()
	return c
}

// onWatch passes what watch streams that follow are to send to a function, which reports whether it is sent.
func onWatch(cluster *fakeetcd.Cluster, send func(*fakeetcd.Member, *pb.WatchResponse) bool) {
	cluster.On("Watch", func(call *fakeetcd.Call) {
		call.OnSend(func(m proto.Message) bool { return send(call.Member, m.(*pb.WatchResponse)) })
		_, _ = call.Execute()
	})
}

// unresponsive returns a switch: while it is set, the watch streams say nothing.
func unresponsive(cluster *fakeetcd.Cluster) *atomic.Bool {
	var silent atomic.Bool
	onWatch(cluster, func(*fakeetcd.Member, *pb.WatchResponse) bool { return !silent.Load() })
	return &silent
}

// deny makes the server deny reads that begin below a prefix.
func deny(cluster *fakeetcd.Cluster, prefix string) *fakeetcd.Hook {
	return cluster.On("Range", func(call *fakeetcd.Call) {
		if strings.HasPrefix(string(call.Request.(*pb.RangeRequest).Key), prefix) {
			call.Answer(nil, errDenied)
		}
	})
}

// onCreate answers each request to create a watch by respond; the streams do nothing else.
func onCreate(cluster *fakeetcd.Cluster, respond func(*fakeetcd.Call, *pb.WatchCreateRequest)) {
	cluster.On("Watch", func(call *fakeetcd.Call) {
		for {
			req, err := call.Recv()
			if err != nil {
				return
			}
			if r := req.(*pb.WatchRequest).GetCreateRequest(); r != nil {
				respond(call, r)
			}
		}
	})
}

// TestAWatchThatLags silences a watch for a while. One read waits for MaxWait, further ones do not; when the watch is
// back, memory answers again.
func TestAWatchThatLags(t *testing.T) {
	for name, bound := range map[string]func(context.Context, int64) context.Context{
		"linearizable": func(ctx context.Context, _ int64) context.Context { return ctx }, "not older than": cache.NotOlderThan,
	} {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
				silent := unresponsive(cluster)
				c := serve(t, client, cache.Config{MaxWait: 100 * time.Millisecond})
				silent.Store(true)
				rev := clienttest.Put(t, cluster, "b", "v")
				get := func() int64 { return clienttest.Must(c.Get(bound(t.Context(), rev), "a/1")).Header.Revision }
				began := time.Now()
				for range 10 {
					require.Equal(t, rev, get())
				}
				require.Equal(t, 100*time.Millisecond, time.Since(began), "the first one waits")
				require.EqualValues(t, 1, c.Stats().Timeouts)
				require.EqualValues(t, 10, c.Stats().Misses)
				silent.Store(false)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Equal(t, rev, get())
				require.EqualValues(t, 1, c.Stats().Hits)
			})
		})
	}
}

// TestProgressIsAskedForEverMoreSlowly counts the requests to a watch that does not answer.
func TestProgressIsAskedForEverMoreSlowly(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		silent := unresponsive(cluster)
		c := serve(t, client, cache.Config{})
		silent.Store(true)
		clienttest.Put(t, cluster, "b", "v")
		clienttest.Get(t, c, "a/1")
		require.InDelta(t, 17, c.Stats().ProgressRequests, 3, "in the half second of MaxWait")
		time.Sleep(time.Minute)
		require.InDelta(t, 17+4+60, c.Stats().ProgressRequests, 10, "once a second afterwards")
	})
}

// TestAMemberThatCatchesUpGetsFewRequests uses a member that answers progress requests at once and catches up slowly.
func TestAMemberThatCatchesUpGetsFewRequests(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		var lag atomic.Int64
		onWatch(cluster, func(_ *fakeetcd.Member, resp *pb.WatchResponse) bool {
			if resp.WatchId == -1 {
				resp.Header.Revision -= max(lag.Add(-1), 0)
			}
			return true
		})
		c := serve(t, client, cache.Config{})
		for range 1000 {
			clienttest.Put(t, cluster, "b", "v")
		}
		lag.Store(900)
		clienttest.Get(t, c, "a/1")
		require.InDelta(t, 17, c.Stats().ProgressRequests, 3)
		require.EqualValues(t, 1, c.Stats().Timeouts)
		lag.Store(0)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		clienttest.Get(t, c, "a/1")
		require.EqualValues(t, 1, c.Stats().Hits)
	})
}

// TestAStuckIdleWatch makes the watch of an idle cache hang on its member. The cache detects that although no call reads, and
// continues over another member.
func TestAStuckIdleWatch(t *testing.T) {
	for _, within := range []time.Duration{
		10 * time.Second,
		5 * time.Minute, // of a wrapper, whose next stream may go to the same member
	} {
		clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
			if within > time.Minute {
				client.Watcher = struct{ clientv3.Watcher }{client.Watcher}
			}
			var stuck atomic.Pointer[fakeetcd.Member]
			onWatch(cluster, func(m *fakeetcd.Member, _ *pb.WatchResponse) bool { return stuck.Load() != m })
			c := serve(t, client, cache.Config{})
			stuck.Store(cluster.Calls("Watch")[0].Member)
			clienttest.Put(t, cluster, "a/1", "v")
			time.Sleep(time.Minute * 11 / 10)
			time.Sleep(within)
			synctest.Wait()
			calls := cluster.Calls("Watch")
			require.NotEqual(t, calls[0].Member, calls[len(calls)-1].Member)
			require.Positive(t, c.Stats().Reopened)
			require.EqualValues(t, 1, clienttest.Get(t, c, "a/1", clientv3.WithSerializable()).Count)
			require.Less(t, c.Freshness().Age, 70*time.Second)
			require.Equal(t, cluster.Revision(), c.Freshness().Revision)
		})
	}
}

// TestAQuietStore has one prefix behind another, whose watch begins anew after the last revision of a store in which nothing happens.
// The server answers no progress request while a watch of the stream begins in the future.
func TestAQuietStore(t *testing.T) {
	for _, wrapped := range []bool{false, true} {
		clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
			if wrapped {
				client.Watcher = struct{ clientv3.Watcher }{client.Watcher}
			}
			c := newCache(t, client, cache.Config{Prefixes: []string{"a/", "b/"}})
			awaitServing(t, c, "a/1")
			clienttest.Put(t, cluster, "a/1", "v")
			synctest.Wait()
			cluster.Member(0).BreakConnections()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			require.NoError(t, c.WaitForRevision(ctx, cluster.Revision()))
		})
	}
}

// TestAPermissionIsWithdrawn refuses the watch when it is created again. The cached keys are dropped.
func TestAPermissionIsWithdrawn(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	clienttest.Put(t, cluster, "a/1", "secret")
	dropped := make(chan error, 1)
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}, OnDrop: func(_ string, err error) { dropped <- err }})
	awaitServing(t, c, "a/1")
	cluster.On("Range", func(call *fakeetcd.Call) { call.Answer(nil, errDenied) })
	onCreate(cluster, func(call *fakeetcd.Call, _ *pb.WatchCreateRequest) {
		_ = call.Send(&pb.WatchResponse{
			Header: &pb.ResponseHeader{}, WatchId: -1, Created: true, Canceled: true, CancelReason: errDenied.Error(),
		})
	})
	cluster.Member(0).BreakConnections()
	require.Equal(t, denied, <-dropped)
	_, err := c.Get(clienttest.Within(t), "a/1", clientv3.WithSerializable())
	require.Equal(t, denied, err)
}

// TestAPermissionOfOnePrefixIsWithdrawn denies reads of the last of three prefixes. That prefix is dropped, and the others are
// read as before: floors read the prefixes in turn.
func TestAPermissionOfOnePrefixIsWithdrawn(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		clienttest.Put(t, cluster, "c/1", "secret")
		var dropped []string
		c := newCache(t, client, cache.Config{Prefixes: []string{"a/", "b/", "c/"}, OnDrop: func(prefix string, err error) {
			assert.Equal(t, denied, err)
			dropped = append(dropped, prefix)
		}})
		synctest.Wait()
		refusal := deny(cluster, "c/")
		for range 3 {
			clienttest.Get(t, c, "a/1")
		}
		synctest.Wait()
		require.Equal(t, []string{"c/"}, dropped)
		_, err := c.Get(t.Context(), "c/1", clientv3.WithSerializable())
		require.Equal(t, denied, err)
		before := c.Stats().Hits
		clienttest.Get(t, c, "a/1")
		require.Equal(t, before+1, c.Stats().Hits)
		refusal.Remove()
		time.Sleep(time.Minute)
		synctest.Wait()
		clienttest.Get(t, c, "c/1")
		require.Equal(t, before+2, c.Stats().Hits)
	})
}

// withdraw makes the server deny reads below a prefix, and transactions that may read there.
func withdraw(cluster *fakeetcd.Cluster, prefix string) {
	refuse := func(call *fakeetcd.Call, ranges ...*pb.RangeRequest) {
		for _, r := range ranges {
			if string(r.Key) <= prefix && (prefix < string(r.RangeEnd) || string(r.Key) == prefix) {
				call.Answer(nil, errDenied)
			}
		}
	}
	cluster.On("Range", func(call *fakeetcd.Call) { refuse(call, call.Request.(*pb.RangeRequest)) })
	cluster.On("Txn", func(call *fakeetcd.Call) {
		r := call.Request.(*pb.TxnRequest)
		for _, op := range append(r.Success, r.Failure...) {
			refuse(call, op.GetRequestRange())
		}
	})
}

// TestARoleIsNarrowed withdraws the permission for a part of one of many prefixes, which no floor reads. The prefix is dropped
// within an interval, whether others are read or not.
func TestARoleIsNarrowed(t *testing.T) {
	for _, busy := range []bool{false, true} {
		clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
			clienttest.Put(t, cluster, "p100/z", "secret")
			var prefixes []string
			for i := range 140 {
				prefixes = append(prefixes, fmt.Sprintf("p%03d/", i))
			}
			var dropped []string
			c := newCache(t, client, cache.Config{Prefixes: prefixes, OnDrop: func(prefix string, err error) {
				assert.Equal(t, denied, err)
				dropped = append(dropped, prefix)
			}})
			synctest.Wait()
			withdraw(cluster, "p100/y")
			for range 66 {
				time.Sleep(time.Second)
				if busy {
					clienttest.Get(t, c, "p000/1")
				}
			}
			synctest.Wait()
			require.Equal(t, []string{"p100/"}, dropped)
			_, err := c.Get(t.Context(), "p100/z", clientv3.WithSerializable())
			require.NoError(t, err, "the server's answer")
			require.ErrorIs(t, c.Freshness().Err, denied)
		})
	}
}

// TestAnIdleCacheCostsLittle counts what a cache sends in an hour without use.
func TestAnIdleCacheCostsLittle(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		c := serve(t, client, cache.Config{})
		ranges := cluster.Count("Range")
		time.Sleep(time.Hour)
		require.InDelta(t, 60, cluster.Count("Range")-ranges, 8)
		require.InDelta(t, 60, cluster.Count("Txn"), 8, "permissions")
		require.LessOrEqual(t, cluster.Count("Status"), 8)
		require.LessOrEqual(t, c.Stats().ProgressRequests, int64(60))
		require.Less(t, c.Freshness().Age, 70*time.Second)
	})
}

// TestDeltaResync compacts revisions that the watch needs. The cache reads the keys, and only the values that have changed.
func TestDeltaResync(t *testing.T) {
	const keys, changed = 3000, 30
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		for i := range keys {
			clienttest.Put(t, cluster, fmt.Sprintf("a/%05d", i), "v")
		}
		resynced := make(chan cache.Resynced, 1)
		c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}, OnResync: func(r cache.Resynced) { resynced <- r }})
		awaitServing(t, c, "a/00000")
		for range 5 { // and again
			from := cluster.Revision()
			missRevisions(t, cluster, func() {
				for i := range changed {
					clienttest.Put(t, cluster, fmt.Sprintf("a/%05d", 100*i), fmt.Sprint("new", from))
				}
				clienttest.Put(t, cluster, fmt.Sprint("a/1", from), "added")
			})
			before := len(cluster.Calls())
			r := <-resynced
			require.Equal(t, cache.Resynced{Prefix: "a/", Revision: cluster.Revision(), Changed: changed + 1}, r)
			var values int
			for _, call := range cluster.Calls()[before:] {
				for _, req := range call.Requests {
					switch r := req.(type) {
					case *pb.RangeRequest:
						assert.True(t, r.KeysOnly || r.CountOnly || len(r.RangeEnd) == 0, "%v", r)
					case *pb.TxnRequest:
						values += len(r.Success)
					}
				}
			}
			require.LessOrEqual(t, values, changed+1)
			requireEqualToServer(t, c, client)
		}
		require.EqualValues(t, 1, c.Stats().Loads)
	})
}

// missRevisions makes all changes while the watch is refused, and compacts them.
func missRevisions(t *testing.T, cluster *fakeetcd.Cluster, happen func()) {
	t.Helper()
	away := cluster.On("Watch", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCNoLeader) })
	cluster.Member(0).BreakConnections()
	happen()
	clienttest.Put(t, cluster, "b", "so that what happened before is compacted")
	require.NoError(t, cluster.Compact(cluster.Revision()))
	away.Remove()
}

// requireEqualToServer compares all keys of a cache of "a/" with the server's at the same revision.
func requireEqualToServer(t *testing.T, c *cache.Cache, client *clientv3.Client) {
	t.Helper()
	got := clienttest.Get(t, c, "a/", clientv3.WithPrefix(), clientv3.WithSerializable())
	want := clienttest.Must(clientv3.NewKV(client).Get(clienttest.Within(t), "a/", clientv3.WithPrefix(), clientv3.WithRev(got.Header.Revision)))
	require.Len(t, got.Kvs, len(want.Kvs))
	for i := range want.Kvs {
		require.True(t, proto.Equal(want.Kvs[i], got.Kvs[i]), "%v, %v", want.Kvs[i], got.Kvs[i])
	}
	require.Len(t, want.Kvs, int(c.Stats().Keys))
}

// TestDeltaResyncWithDeletions removes keys, and most of the values change, so that all are read.
func TestDeltaResyncWithDeletions(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	for i := range 100 {
		clienttest.Put(t, cluster, fmt.Sprintf("a/%03d", i), "v")
	}
	resynced := make(chan cache.Resynced, 1)
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}, OnResync: func(r cache.Resynced) { resynced <- r }})
	missRevisions(t, cluster, func() {
		clienttest.Must(clienttest.Connect(t, cluster).Delete(clienttest.Within(t), "a/01", clientv3.WithPrefix()))
	})
	r := <-resynced
	require.Equal(t, 10, r.Removed)
	require.False(t, r.Full)
	requireEqualToServer(t, c, client)
	missRevisions(t, cluster, func() {
		for i := range 80 {
			clienttest.Put(t, cluster, fmt.Sprintf("a/%03d", i), "new")
		}
	})
	require.True(t, (<-resynced).Full)
	requireEqualToServer(t, c, client)
}

// TestCompactedWatches ends every watch with a compaction, for a minute. A client whose watches do not last pauses
// between its requests.
func TestCompactedWatches(t *testing.T) {
	lists := func(t *testing.T, lasts time.Duration) (n int) {
		clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
			rev := clienttest.Put(t, cluster, "a/1", "v")
			onCreate(cluster, func(call *fakeetcd.Call, r *pb.WatchCreateRequest) {
				header := &pb.ResponseHeader{Revision: rev}
				_ = call.Send(&pb.WatchResponse{Header: header, WatchId: r.WatchId, Created: true})
				time.Sleep(lasts)
				_ = call.Send(&pb.WatchResponse{Header: header, WatchId: r.WatchId, Canceled: true, CompactRevision: rev + 2})
			})
			c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
			time.Sleep(time.Minute)
			n = cluster.Count("Range")
			require.EqualValues(t, 1, clienttest.Get(t, c, "a/1", clientv3.WithSerializable()).Count)
		})
		return n
	}
	require.Less(t, lists(t, 0), 60)
	require.Greater(t, lists(t, 2*time.Second), 28, "each is made again at once")
}

// TestAServerThatContradictsItself uses a server that says that more keys follow, and returns none.
func TestAServerThatContradictsItself(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	cluster.On("Range", func(call *fakeetcd.Call) {
		call.Answer(&pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 5}, More: true, Count: 3}, nil)
	})
	c := newUnsynced(t, client, cache.Config{Prefixes: []string{"a/"}})
	require.NoError(t, cluster.Wait(clienttest.Within(t), "Range", 2))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, c.WaitSynced(ctx), "more keys follow")
}

// TestOverflow lets a prefix outgrow the cache. It is read from the server, and loaded again when it has shrunk.
func TestOverflow(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		clienttest.Put(t, cluster, "a/1", "v")
		dropped := make(chan error, 1)
		c := serve(t, client, cache.Config{MaxBytes: 1000, OnDrop: func(_ string, err error) { dropped <- err }})
		require.EqualValues(t, 1, c.Stats().Keys)
		clienttest.Put(t, cluster, "a/2", string(make([]byte, 2000)))
		var overflow *cache.OverflowError
		require.ErrorAs(t, <-dropped, &overflow)
		require.Equal(t, cache.OverflowError{Prefix: "a/", MaxBytes: 1000}, *overflow)
		require.Len(t, clienttest.Get(t, c, "a/2").Kvs[0].Value, 2000)
		require.Zero(t, c.Stats().Bytes)
		require.Negative(t, c.Freshness().Age)
		clienttest.Must(client.Delete(t.Context(), "a/2"))
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		require.EqualValues(t, 1, c.Stats().Keys)
	})
}

// TestPrefixesThatLoadTogether loads prefixes at the same time, each of which fits alone. Together they stay within MaxBytes.
func TestPrefixesThatLoadTogether(t *testing.T) {
	const prefixes, limit = 6, 250_000
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		var all []string
		for p := range prefixes {
			all = append(all, fmt.Sprintf("p%d/", p))
			for i := range 10 {
				clienttest.Put(t, cluster, fmt.Sprintf("p%d/%d", p, i), strings.Repeat("x", 20_000))
			}
		}
		var reading sync.WaitGroup
		reading.Add(prefixes)
		cluster.On("Range", func(call *fakeetcd.Call) {
			resp, err := call.Execute()
			if !call.Request.(*pb.RangeRequest).CountOnly {
				reading.Done()
				reading.Wait()
			}
			call.Answer(resp, err)
		})
		var overflows atomic.Int64
		c, err := cache.New(client, cache.Config{Prefixes: all, MaxBytes: limit, OnDrop: func(_ string, err error) {
			var overflow *cache.OverflowError
			assert.ErrorAs(t, err, &overflow)
			overflows.Add(1)
		}})
		require.NoError(t, err)
		defer c.Close()
		synctest.Wait()
		require.EqualValues(t, 10, c.Stats().Keys, "one fits")
		require.EqualValues(t, prefixes-1, overflows.Load())
		require.Greater(t, c.Stats().Bytes, int64(200_000))
		require.LessOrEqual(t, c.Stats().Bytes, int64(limit))
		c.Close()
		require.Zero(t, c.Stats().Bytes)
	})
}

// TestAnotherCluster replaces the cluster by another one, whose revision is higher or lower, with equal revisions of a key. The
// first linearizable read shows that, and the cache drops its keys and loads them again. Watches end.
func TestAnotherCluster(t *testing.T) {
	for name, rev := range map[string]int64{"later": 5000, "earlier": 2} {
		t.Run(name, func(t *testing.T) {
			cluster, client := clienttest.StartClient(t, 1)
			require.EqualValues(t, 2, clienttest.Put(t, cluster, "a/1", "old"))
			for range 10 {
				clienttest.Put(t, cluster, "b", "old")
			}
			dropped := make(chan error, 1)
			c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}, OnDrop: func(_ string, err error) { dropped <- err }})
			changes := changesOf(t, newInformer(t, c, cache.InformerConfig[string]{}))
			requireChanges(t, changes, "added a/1 -→old", "synced")
			awaitServing(t, c, "a/1")
			ch := c.Watcher().Watch(clienttest.Within(t), "a/", clientv3.WithPrefix())
			become(cluster, &pb.ResponseHeader{ClusterId: 7, MemberId: 1, RaftTerm: 1, Revision: rev})
			resp := clienttest.Get(t, c, "a/1")
			require.Equal(t, "new", string(resp.Kvs[0].Value))
			end := <-ch
			for _, err := range []error{<-dropped, end.Err()} {
				var changed *clientv3.ClusterChangedError
				require.ErrorAs(t, err, &changed)
				require.EqualValues(t, 7, changed.NewClusterID)
			}
			_, open := <-ch
			require.False(t, open)
			requireChanges(t, changes, "relisted", "updated a/1 old→new")
			awaitServing(t, c, "a/1")
			resp = clienttest.Get(t, c, "a/1", clientv3.WithSerializable())
			require.Equal(t, "new", string(resp.Kvs[0].Value))
			require.EqualValues(t, 7, resp.Header.ClusterId)
		})
	}
}

// Where lists come from one cluster and watches from another, or watches are refused late, the cache tries less and less often. It
// asks for the version only while a watch is open.
func TestWatchesThatEndAgainAndAgainAreFew(t *testing.T) {
	for refused, most := range map[bool]int{false: 150, true: 0} {
		clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
			onWatch(cluster, func(_ *fakeetcd.Member, resp *pb.WatchResponse) bool {
				time.Sleep(2 * time.Second)
				resp.Header.ClusterId = 7
				return true
			})
			if refused {
				cluster.On("Watch", func(call *fakeetcd.Call) {
					time.Sleep(2 * time.Second)
					call.Answer(nil, rpctypes.ErrGRPCPermissionNotGranted)
				})
			}
			serve(t, client, cache.Config{})
			time.Sleep(10 * time.Minute)
			assert.Less(t, cluster.Count("Watch"), 150)
			assert.LessOrEqual(t, cluster.Count("Status"), most)
		})
	}
}

// become makes a cluster answer as another one, which has a/1.
func become(cluster *fakeetcd.Cluster, now *pb.ResponseHeader) {
	header := func() *pb.ResponseHeader { return proto.CloneOf(now) }
	cluster.On("Range", func(call *fakeetcd.Call) {
		resp := &pb.RangeResponse{Header: header(), Count: 1}
		if !call.Request.(*pb.RangeRequest).CountOnly {
			resp.Kvs = []*mvccpb.KeyValue{{Key: []byte("a/1"), Value: []byte("new"), CreateRevision: 2, ModRevision: 2, Version: 1}}
		}
		call.Answer(resp, nil)
	})
	cluster.On("Txn", func(call *fakeetcd.Call) { call.Answer(&pb.TxnResponse{Header: header(), Succeeded: true}, nil) })
	onCreate(cluster, func(call *fakeetcd.Call, r *pb.WatchCreateRequest) {
		_ = call.Send(&pb.WatchResponse{Header: header(), WatchId: r.WatchId, Created: true})
	})
}

// TestClose closes the cache while reads and an informer are under way, and reads afterwards.
func TestClose(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	clienttest.Put(t, cluster, "a/1", "v")
	c := newServing(t, client)
	clienttest.Must(cache.NewInformer(c, cache.InformerConfig[string]{Decode: decodeString}))
	ctx, cancel := context.WithCancel(clienttest.Within(t))
	defer cancel()
	var reads []<-chan result
	for range 100 {
		reads = append(reads, getAsync(ctx, c, "a/1"))
	}
	c.Close()
	c.Close()
	for _, r := range reads {
		require.NoError(t, (<-r).err)
	}
	resp := clienttest.Must(c.Get(ctx, "a/1"))
	require.EqualValues(t, 1, resp.Count)
	_, err := cache.NewInformer(c, cache.InformerConfig[string]{Decode: decodeString})
	require.Equal(t, cache.ErrClosed, err)
	require.Equal(t, cache.ErrClosed, c.WaitSynced(clienttest.Within(t)))
}

// TestTheClientCloses closes the client before the cache.
func TestTheClientCloses(t *testing.T) {
	_, client := clienttest.StartClient(t, 1)
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
	require.NoError(t, client.Close())
	_, err := c.Get(clienttest.Within(t), "a/1")
	require.True(t, clientv3.IsConnCanceled(err), "%v", err)
	c.Close()
}

// TestEndOfOneReaderEndsNoOther cancels one of two reads that wait for a floor.
func TestEndOfOneReaderEndsNoOther(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	c := newServing(t, client)
	under, release := make(chan struct{}), make(chan struct{})
	cluster.Once("Range", func(call *fakeetcd.Call) {
		close(under)
		assert.NoError(t, call.Hold(release))
	})
	ctx, cancel := context.WithCancel(clienttest.Within(t))
	first := getAsync(ctx, c, "a/1")
	<-under
	cancel()
	require.Equal(t, context.Canceled, (<-first).err)
	second := getAsync(clienttest.Within(t), c, "a/1")
	close(release)
	require.NoError(t, (<-second).err)
}
