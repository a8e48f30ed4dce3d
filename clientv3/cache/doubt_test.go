package cache_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// saysVersion makes the members report a version.
func saysVersion(cluster *fakeetcd.Cluster, version func() string) *fakeetcd.Hook {
	return cluster.On("Status", func(call *fakeetcd.Call) {
		resp, err := call.Execute()
		if err == nil {
			resp.(*pb.StatusResponse).Version = version()
		}
		call.Answer(resp, err)
	})
}

// hits returns how many of the gets that rely on the watch memory answers.
func hits(t *testing.T, c *cache.Cache, rev int64) int64 {
	t.Helper()
	before := c.Stats().Hits
	for _, get := range []struct {
		ctx  context.Context
		opts []clientv3.OpOption
	}{
		{t.Context(), nil},
		{cache.WithMaxStaleness(t.Context(), time.Hour), nil},
		{cache.NotOlderThan(t.Context(), rev), nil},
		{t.Context(), []clientv3.OpOption{clientv3.WithRev(rev)}},
	} {
		clienttest.Must(c.Get(get.ctx, "a/1", get.opts...))
	}
	return c.Stats().Hits - before
}

// TestVersionsThatLoseEvents uses servers of the versions around the first ones that lose no event of a watch. With
// earlier versions memory answers only serializable gets, which claim nothing.
func TestVersionsThatLoseEvents(t *testing.T) {
	for version, keeps := range map[string]bool{
		"3.3.27": false, "3.4.35": false, "3.4.36": true, "3.5.0": false, "3.5.17": false, "3.5.18": true, "3.6.0-rc.0": false,
		"3.6.0": true, "3.8.0-alpha.0": true, "4.0.0": true, "unknown": false, "": false,
	} {
		t.Run(version, func(t *testing.T) {
			clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
				rev := clienttest.Put(t, cluster, "a/1", "v")
				saysVersion(cluster, func() string { return version })
				c := serve(t, client, cache.Config{})
				want := map[bool]int64{true: 4}[keeps]
				require.Equal(t, want, hits(t, c, rev))
				require.Equal(t, keeps, c.Freshness().Err == nil)
				if !keeps {
					require.ErrorContains(t, c.Freshness().Err, version)
				}
				before := c.Stats().Hits
				clienttest.Get(t, c, "a/1", clientv3.WithSerializable())
				require.Equal(t, before+1, c.Stats().Hits)
			})
		})
	}
}

// TestAnErrorOfStatusPasses lets a request for the version fail. Linearizable gets are answered from memory soon afterwards.
func TestAnErrorOfStatusPasses(t *testing.T) {
	for name, refusal := range map[string]error{
		"rate limited":      status.Error(codes.ResourceExhausted, "envoy: rate limited"),
		"too many requests": rpctypes.ErrGRPCRequestTooManyRequests,
		"token":             rpctypes.ErrGRPCInvalidAuthToken,
		"deadline":          status.Error(codes.DeadlineExceeded, "upstream request timeout"),
		"internal":          status.Error(codes.Internal, "stream terminated by RST_STREAM with error code: INTERNAL_ERROR"),
		"unavailable":       status.Error(codes.Unavailable, "no healthy upstream"),
	} {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
				rev := clienttest.Put(t, cluster, "a/1", "v")
				cluster.Once("Status", func(call *fakeetcd.Call) { call.Answer(nil, refusal) })
				c := serve(t, client, cache.Config{})
				require.ErrorContains(t, c.Freshness().Err, "version")
				time.Sleep(time.Second)
				synctest.Wait()
				require.NoError(t, c.Freshness().Err)
				require.EqualValues(t, 4, hits(t, c, rev))
			})
		})
	}
}

// TestStatusFailsForAnHour does not change what was trusted before, and the cluster is not asked without a pause.
func TestStatusFailsForAnHour(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		rev := clienttest.Put(t, cluster, "a/1", "v")
		c := serve(t, client, cache.Config{})
		refused := cluster.On("Status", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCInvalidAuthToken) })
		time.Sleep(time.Hour)
		require.EqualValues(t, 4, hits(t, c, rev), "it was trusted before")
		c.Close()
		before := cluster.Count("Status")
		c = serve(t, client, cache.Config{})
		time.Sleep(time.Hour)
		require.Less(t, cluster.Count("Status")-before, 240)
		require.Zero(t, hits(t, c, rev))
		refused.Remove()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 4, hits(t, c, rev))
	})
}

// TestStatusIsForRoot uses servers that permit Status to root alone. All such releases keep events.
func TestStatusIsForRoot(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		rev := clienttest.Put(t, cluster, "a/1", "v")
		h := cluster.On("Status", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		c := serve(t, client, cache.Config{})
		require.EqualValues(t, 4, hits(t, c, rev))
		time.Sleep(time.Hour)
		require.LessOrEqual(t, h.Ran(), 8)
	})
}

// TestAServerWithoutStatus uses a server other than etcd.
func TestAServerWithoutStatus(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		rev := clienttest.Put(t, cluster, "a/1", "v")
		h := cluster.On("Status", func(call *fakeetcd.Call) {
			call.Answer(nil, status.Error(codes.Unimplemented, "unknown method Status"))
		})
		c := serve(t, client, cache.Config{})
		time.Sleep(time.Hour)
		require.Zero(t, hits(t, c, rev))
		require.LessOrEqual(t, h.Ran(), 8)
	})
}

// TestMembersAreUpgraded changes the version under a watch, and changes it back.
func TestMembersAreUpgraded(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		rev := clienttest.Put(t, cluster, "a/1", "v")
		var version atomic.Value
		saysVersion(cluster, func() string { return version.Load().(string) })
		version.Store("3.5.15")
		c := serve(t, client, cache.Config{})
		for _, tt := range []struct {
			version string
			hits    int64
		}{{"3.5.18", 4}, {"3.5.17", 0}} {
			version.Store(tt.version)
			time.Sleep(11 * time.Minute)
			synctest.Wait()
			require.Equal(t, tt.hits, hits(t, c, rev), tt.version)
		}
		require.EqualValues(t, 2, c.Stats().Loads, "before it was trusted")
	})
}

// TestFreshnessSaysWhy covers the other reasons for which the server answers, all of which pass. The Watcher is a wrapper, such as that
// of package namespace.
func TestFreshnessSaysWhy(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		client.Watcher = struct{ clientv3.Watcher }{client.Watcher}
		silent := unresponsive(cluster)
		refusal := cluster.On("Range", func(call *fakeetcd.Call) { call.Answer(nil, errDenied) })
		c := newUnsynced(t, client, cache.Config{Prefixes: []string{"a/"}})
		require.ErrorContains(t, c.Freshness().Err, `"a/"`)
		synctest.Wait()
		require.ErrorIs(t, c.Freshness().Err, denied)
		refusal.Remove()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.NoError(t, c.Freshness().Err)
		silent.Store(true)
		clienttest.Put(t, cluster, "b", "v")
		clienttest.Get(t, c, "a/1")
		require.ErrorContains(t, c.Freshness().Err, "behind")
		time.Sleep(20 * time.Second)
		silent.Store(false)
		time.Sleep(time.Minute)
		require.NoError(t, c.Freshness().Err)
	})
}

// TestWhatWasLostBeforeAnUpgrade uses a server that loses an event of the watch before it is upgraded, and whose version is unavailable in
// between. Later answers from memory include the event.
func TestWhatWasLostBeforeAnUpgrade(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		clienttest.Put(t, cluster, "a/1", "old")
		var version atomic.Value
		version.Store("3.5.12")
		saysVersion(cluster, func() string { return version.Load().(string) })
		var loses atomic.Bool
		onWatch(cluster, func(_ *fakeetcd.Member, resp *pb.WatchResponse) bool { return len(resp.Events) == 0 || !loses.Load() })
		c := serve(t, client, cache.Config{})
		loses.Store(true)
		rev := clienttest.Put(t, cluster, "a/1", "new")
		synctest.Wait()
		loses.Store(false)
		clienttest.Put(t, cluster, "a/2", "v")
		cluster.Once("Status", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCInvalidAuthToken) })
		version.Store("3.5.18")
		time.Sleep(25 * time.Minute)
		synctest.Wait()
		require.EqualValues(t, 4, hits(t, c, cluster.Revision()))
		resp := clienttest.Get(t, c, "a/1")
		require.Equal(t, rev, resp.Kvs[0].ModRevision)
	})
}
