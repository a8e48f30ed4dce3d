package cache_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far above what anything here takes; what hangs is ended by it.
const patience = 30 * time.Second

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func startFake(t testing.TB, members int) (*fakeetcd.Cluster, *clientv3.Client) {
	t.Helper()
	cluster, err := fakeetcd.Start(members)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	return cluster, newClient(t, cluster)
}

func newClient(t testing.TB, cluster *fakeetcd.Cluster) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// newCache returns a cache that is loaded, and serves once its watch is created.
func newCache(t testing.TB, client *clientv3.Client, cfg cache.Config) *cache.Cache {
	t.Helper()
	c, err := cache.New(client, cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.NoError(t, c.WaitSynced(within(t)))
	return c
}

// awaitServing returns when a linearizable get is answered from memory.
func awaitServing(t testing.TB, c *cache.Cache, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		before := c.Stats().Hits
		_, err := c.Get(within(t), key)
		return err == nil && c.Stats().Hits > before
	}, patience, time.Millisecond, "no get is answered from memory")
}

func put(t testing.TB, cluster *fakeetcd.Cluster, key, value string) int64 {
	t.Helper()
	rev, err := cluster.Put(key, value)
	require.NoError(t, err)
	return rev
}

// The error of a server that denies a read, as it is sent and as a caller gets it.
var (
	errDenied = rpctypes.ErrGRPCPermissionDenied
	denied    = rpctypes.ErrPermissionDenied
)
