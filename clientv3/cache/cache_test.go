package cache_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// TestGets answers reads of all kinds from memory.
func TestGets(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	clienttest.Put(t, cluster, "a/1", "x")
	c := newServing(t, client)

	rev := clienttest.Put(t, cluster, "a/2", "y")
	ranges := cluster.Count("Range")
	resp := clienttest.Get(t, c, "a/", clientv3.WithPrefix())
	require.Len(t, resp.Kvs, 2)
	require.GreaterOrEqual(t, resp.Header.Revision, rev)
	require.Equal(t, ranges+1, cluster.Count("Range"), "the floor is the only read")

	other := clienttest.Put(t, cluster, "b", "not cached")
	resp = clienttest.Get(t, c, "a/1")
	require.GreaterOrEqual(t, resp.Header.Revision, other, "progress brings the revision of what is not cached")

	ranges = cluster.Count("Range")
	clienttest.Get(t, c, "a/1", clientv3.WithSerializable())
	clienttest.Get(t, c, "a/1", clientv3.WithRev(rev))
	require.Equal(t, ranges, cluster.Count("Range"))

	require.Equal(t, "not cached", string(clienttest.Get(t, c, "b").Kvs[0].Value))
}

// TestLoadWithALimitForMessages loads keys whose first page, and some chunks of a stream, exceed the limit for messages.
func TestLoadWithALimitForMessages(t *testing.T) {
	const limit = 20_000
	cluster := clienttest.Start(t, 1)
	client := clienttest.Connect(t, cluster, clientv3.Config{MaxCallSendMsgSize: limit, MaxCallRecvMsgSize: limit})
	for i := range 100 {
		clienttest.Put(t, cluster, fmt.Sprintf("a/%d", i), strings.Repeat("v", 1000))
	}
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
	require.Equal(t, int64(100), c.Stats().Keys)
}

// TestMetadataOfTheCaller makes a get with a token of its own, which the server refuses. Memory answers only what
// the client's own login may read.
func TestMetadataOfTheCaller(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	clienttest.Put(t, cluster, "a/1", "secret")
	c := newServing(t, client)
	misses := c.Stats().Misses
	cluster.On("Range", func(call *fakeetcd.Call) {
		if len(call.Metadata.Get("token")) > 0 {
			call.Answer(nil, errDenied)
		}
	})
	other := metadata.AppendToOutgoingContext(clienttest.Within(t), "token", "another user's")
	for name, ctx := range map[string]context.Context{
		"plain": other, "stale": cache.WithMaxStaleness(other, time.Hour), "revision": cache.NotOlderThan(other, 1),
	} {
		_, err := c.Get(ctx, "a/1")
		require.Equal(t, denied, err, name)
	}
	_, err := c.Get(other, "a/1", clientv3.WithSerializable())
	require.Equal(t, denied, err)
	require.Equal(t, misses+4, c.Stats().Misses)

	ranges := cluster.Count("Range")
	clienttest.Must(c.Get(clientv3.WithRequireLeader(clienttest.Within(t)), "a/1"))
	require.Equal(t, ranges+1, cluster.Count("Range"), "a floor")
	require.NotContains(t, cluster.Calls("Range")[ranges].Metadata, "token")
}

// TestMaxStaleness counts what reads with a bound cost, within the cache and beside it.
func TestMaxStaleness(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		clienttest.Put(t, cluster, "a/1", "v")
		clienttest.Put(t, cluster, "b", "v")
		c := serve(t, client, cache.Config{})
		ctx := cache.WithMaxStaleness(t.Context(), 10*time.Second)
		floors := func() int64 { return c.Stats().Floors }
		require.Zero(t, floors(), "it was read just now")
		for range 100 {
			clienttest.Must(c.Get(ctx, "a/1"))
		}
		require.Zero(t, floors())
		time.Sleep(10*time.Second + 1)
		for range 100 {
			clienttest.Must(c.Get(ctx, "a/1"))
		}
		require.EqualValues(t, 1, floors())

		time.Sleep(5 * time.Second)
		var linearizable int
		cluster.On("Range", func(call *fakeetcd.Call) {
			if !call.Request.(*pb.RangeRequest).Serializable {
				linearizable++
			}
		})
		for range 100 {
			require.EqualValues(t, 1, clienttest.Must(c.Get(ctx, "b")).Count)
		}
		require.Zero(t, linearizable, "the floor is 5 s old")
		time.Sleep(6 * time.Second)
		for range 100 {
			clienttest.Must(c.Get(ctx, "b"))
		}
		require.Equal(t, 1, linearizable)
		require.Zero(t, c.Stats().Misses, "of cached keys")

		time.Sleep(11 * time.Second)
		refused := cluster.On("Range", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCCorrupt) })
		for _, key := range []string{"a/1", "b"} {
			_, err := c.Get(ctx, key)
			require.Equal(t, rpctypes.ErrCorrupt, err)
		}
		_, _ = c.Get(metadata.AppendToOutgoingContext(ctx, "token", "another user's"), "a/1")
		require.Equal(t, 4, refused.Ran(), "three floors, and what the cache's login says nothing about")
	})
}

// TestReadsOfALaggingMemberAreNotServed answers serializable reads at an old revision.
func TestReadsOfALaggingMemberAreNotServed(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
	clienttest.Put(t, cluster, "b", "v")
	cluster.On("Range", func(call *fakeetcd.Call) {
		if r := call.Request.(*pb.RangeRequest); r.Serializable {
			call.Answer(&pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 1}}, nil)
		}
	})
	resp := clienttest.Must(c.Get(cache.WithMaxStaleness(clienttest.Within(t), time.Second), "b"))
	require.EqualValues(t, 1, resp.Count)
}

// TestNotOlderThan reads at least at a revision, in the cache and beside it.
func TestNotOlderThan(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	c := newServing(t, client)
	for range 20 {
		floors := c.Stats().Floors
		rev := clienttest.Put(t, cluster, "a/1", "v")
		resp := clienttest.Must(c.Get(cache.NotOlderThan(clienttest.Within(t), rev), "a/1"))
		require.GreaterOrEqual(t, resp.Header.Revision, rev)
		require.Equal(t, floors, c.Stats().Floors)

		rev = clienttest.Put(t, cluster, "b", "v") // shown by progress alone
		resp = clienttest.Must(c.Get(cache.NotOlderThan(clienttest.Within(t), rev), "a/1"))
		require.GreaterOrEqual(t, resp.Header.Revision, rev)
		resp = clienttest.Must(c.Get(cache.NotOlderThan(clienttest.Within(t), rev), "b"))
		require.GreaterOrEqual(t, resp.Header.Revision, rev)
	}
	_, err := c.Get(cache.NotOlderThan(clienttest.Within(t), cluster.Revision()+100), "b")
	require.Equal(t, rpctypes.ErrFutureRev, err)
}

// TestNotOlderThanTheFuture asks for a revision that is not there. Other reads are served from memory meanwhile and
// afterwards, and nothing goes on being asked for.
func TestNotOlderThanTheFuture(t *testing.T) {
	for name, bound := range map[string]func(context.Context) context.Context{
		"alone":          func(ctx context.Context) context.Context { return ctx },
		"with staleness": func(ctx context.Context) context.Context { return cache.WithMaxStaleness(ctx, time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
				c := serve(t, client, cache.Config{})
				ctx := bound(cache.NotOlderThan(t.Context(), cluster.Revision()+100))
				future := getAsync(ctx, c, "a/1")
				synctest.Wait()
				clienttest.Put(t, cluster, "b", "v")
				clienttest.Must(c.Get(t.Context(), "a/1"))
				require.Equal(t, rpctypes.ErrFutureRev, (<-future).err)
				stats := c.Stats()
				require.EqualValues(t, 1, stats.Hits)
				require.Zero(t, stats.Misses)
				require.Zero(t, stats.Timeouts)
				time.Sleep(30 * time.Second)
				clienttest.Get(t, c, "a/1")
				require.EqualValues(t, 2, c.Stats().Hits)
				require.Zero(t, c.Stats().Reopened)
				require.Equal(t, stats.ProgressRequests, c.Stats().ProgressRequests)
			})
		})
	}
}

// TestReadsOfTheFutureDelayNoOther keeps reading a future revision, while other reads follow writes.
func TestReadsOfTheFutureDelayNoOther(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		c := serve(t, client, cache.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		for i := range 10 {
			readers.Go(func() {
				for time.Sleep(time.Duration(i) * 50 * time.Millisecond); ctx.Err() == nil; {
					_, err := c.Get(cache.NotOlderThan(ctx, 1<<40), "a/1")
					assert.Error(t, err)
				}
			})
		}
		for range 20 {
			time.Sleep(time.Second)
			clienttest.Put(t, cluster, "b", "v")
			began := time.Now()
			clienttest.Get(t, c, "a/1")
			require.Less(t, time.Since(began), 50*time.Millisecond)
		}
		require.EqualValues(t, 20, c.Stats().Hits)
		cancel()
		readers.Wait()
	})
}

// TestVersions reads at revisions that are over.
func TestVersions(t *testing.T) {
	testVersions(t, 10, time.Hour)
	testVersions(t, math.MaxInt, math.MaxInt64)
}

func testVersions(t *testing.T, kept int, probes time.Duration) {
	t.Helper()
	cluster, client := clienttest.StartClient(t, 1)
	var revs []int64
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}, MaxVersions: kept, ProbeInterval: probes, MaxWait: testTimeout})
	awaitServing(t, c, "a/1")
	for i := range 30 {
		revs = append(revs, clienttest.Put(t, cluster, "a/1", string(rune('A'+i))))
		clienttest.Get(t, c, "a/1")
	}
	for i, rev := range revs {
		before := c.Stats().Hits
		resp := clienttest.Get(t, c, "a/1", clientv3.WithRev(rev))
		require.Equal(t, string(rune('A'+i)), string(resp.Kvs[0].Value))
		require.Equal(t, cluster.Revision(), resp.Header.Revision)
		if len(revs)-i <= kept {
			require.Equal(t, before+1, c.Stats().Hits)
		}
	}
	_, err := c.Get(clienttest.Within(t), "a/1", clientv3.WithRev(cluster.Revision()+1))
	require.Equal(t, rpctypes.ErrFutureRev, err)
	require.Equal(t, cache.InSync, c.Status()[0].State)
	require.Zero(t, cluster.Count("Txn"), "no probe is due")
}

// TestVersionsOfALargePrefix keeps as many versions as fit: each has copied nodes of the tree.
func TestVersionsOfALargePrefix(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	for i := range 3000 {
		clienttest.Put(t, cluster, fmt.Sprintf("a/%04d", i), "v")
	}
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}, MaxBytes: 1 << 20, MaxVersions: 1000, MaxWait: testTimeout})
	awaitServing(t, c, "a/0001")
	var revs []int64
	for range 50 {
		revs = append(revs, clienttest.Put(t, cluster, "a/1000", "w"))
		clienttest.Get(t, c, "a/1000")
	}
	before := c.Stats()
	clienttest.Get(t, c, "a/1000", clientv3.WithRev(revs[0]))
	require.Equal(t, before.Misses+1, c.Stats().Misses)
	clienttest.Get(t, c, "a/1000", clientv3.WithRev(revs[40]))
	require.Equal(t, before.Hits+1, c.Stats().Hits)
}

// TestConfig checks that the error for an invalid configuration names the field.
func TestConfig(t *testing.T) {
	_, client := clienttest.StartClient(t, 1)
	for want, cfg := range map[string]cache.Config{
		"Prefixes is empty":                    {},
		`"a/b"`:                                {Prefixes: []string{"a/b", "c", "a"}},
		"MaxBytes is -1":                       {Prefixes: []string{"a"}, MaxBytes: -1},
		"MaxWait is -1ns":                      {Prefixes: []string{"a"}, MaxWait: -1},
		"ProbeInterval is 1ms: the least is 1": {Prefixes: []string{"a"}, ProbeInterval: time.Millisecond},
	} {
		_, err := cache.New(client, cfg)
		require.ErrorContains(t, err, want)
	}
}

// TestAPrefixThatIsDenied denies reads of one of two prefixes. The other one is served.
func TestAPrefixThatIsDenied(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	clienttest.Put(t, cluster, "b/1", "v")
	deny(cluster, "a/")
	c := newUnsynced(t, client, cache.Config{Prefixes: []string{"a/", "b/"}})
	awaitServing(t, c, "b/1")
	_, err := c.Get(clienttest.Within(t), "a/1")
	require.Equal(t, denied, err)
	require.Eventually(t, func() bool { return c.Status()[0].State == cache.Denied }, testTimeout, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err = c.WaitSynced(ctx)
	require.ErrorIs(t, err, denied)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, `"a/"`)
}

// TestSeveralPrefixes reads across prefixes, and all keys.
func TestSeveralPrefixes(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	for _, key := range []string{"a/1", "b/1", "b/2", "c"} {
		clienttest.Put(t, cluster, key, "v")
	}
	c := newCache(t, client, cache.Config{Prefixes: []string{"b/", "a/"}})
	awaitServing(t, c, "a/1")
	awaitServing(t, c, "b/1")
	all := newCache(t, client, cache.Config{Prefixes: []string{""}})
	awaitServing(t, all, "a/1")
	for _, kv := range []clientv3.KV{c, all, client.KV} {
		for key, n := range map[string]int64{"a/": 1, "b/": 2, "b/2": 1, "": 4, "c": 1} {
			require.Equal(t, n, clienttest.Get(t, kv, key, clientv3.WithPrefix()).Count, key)
		}
		require.EqualValues(t, 3, clienttest.Get(t, kv, "b", clientv3.WithFromKey()).Count)
	}
}
