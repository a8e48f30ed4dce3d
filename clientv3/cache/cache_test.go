package cache_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
)

// TestGets has reads of all kinds answered from memory.
func TestGets(t *testing.T) {
	cluster, client := startFake(t, 1)
	put(t, cluster, "a/1", "x")
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
	awaitServing(t, c, "a/1")

	rev := put(t, cluster, "a/2", "y")
	ranges := cluster.Count("Range")
	resp, err := c.Get(within(t), "a/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 2)
	require.GreaterOrEqual(t, resp.Header.Revision, rev)
	require.Equal(t, ranges+1, cluster.Count("Range"), "the floor is the only read")

	other := put(t, cluster, "b", "not cached")
	resp, err = c.Get(within(t), "a/1")
	require.NoError(t, err)
	require.GreaterOrEqual(t, resp.Header.Revision, other, "progress brings the revision of what is not cached")

	ranges = cluster.Count("Range")
	_, err = c.Get(within(t), "a/1", clientv3.WithSerializable())
	require.NoError(t, err)
	_, err = c.Get(within(t), "a/1", clientv3.WithRev(rev))
	require.NoError(t, err)
	require.Equal(t, ranges, cluster.Count("Range"))

	resp, err = c.Get(within(t), "b")
	require.NoError(t, err)
	require.Equal(t, "not cached", string(resp.Kvs[0].Value))
}
