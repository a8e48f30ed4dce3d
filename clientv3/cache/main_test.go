package cache_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout ends a test that hangs. It is far above what any test takes.
const testTimeout = 5 * time.Minute

// newUnsynced returns a cache that need not be loaded yet.
func newUnsynced(t testing.TB, client *clientv3.Client, cfg cache.Config) *cache.Cache {
	t.Helper()
	c := clienttest.Must(cache.New(client, cfg))
	t.Cleanup(c.Close)
	return c
}

// newCache returns a cache that is loaded, and serves once its watch is created.
func newCache(t testing.TB, client *clientv3.Client, cfg cache.Config) *cache.Cache {
	t.Helper()
	c := newUnsynced(t, client, cfg)
	require.NoError(t, c.WaitSynced(clienttest.Within(t)))
	return c
}

// newServing returns a cache of "a/" that answers gets from memory, however late its watch is.
func newServing(t testing.TB, client *clientv3.Client) *cache.Cache {
	t.Helper()
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}, MaxWait: testTimeout})
	awaitServing(t, c, "a/1")
	return c
}

// awaitServing returns when a linearizable get is answered from memory.
func awaitServing(t testing.TB, c *cache.Cache, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		before := c.Stats().Hits
		_, err := c.Get(clienttest.Within(t), key)
		return err == nil && c.Stats().Hits > before
	}, testTimeout, time.Millisecond, "no get is answered from memory")
}

// The error of a server that denies a read, as it is sent and as a caller gets it.
var (
	errDenied = rpctypes.ErrGRPCPermissionDenied
	denied    = rpctypes.ErrPermissionDenied
)
