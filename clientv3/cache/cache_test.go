package cache_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// TestGets has reads of all kinds answered from memory.
func TestGets(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	clienttest.Put(t, cluster, "a/1", "x")
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
	awaitServing(t, c, "a/1")

	rev := clienttest.Put(t, cluster, "a/2", "y")
	ranges := cluster.Count("Range")
	resp, err := c.Get(clienttest.Within(t), "a/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 2)
	require.GreaterOrEqual(t, resp.Header.Revision, rev)
	require.Equal(t, ranges+1, cluster.Count("Range"), "the floor is the only read")

	other := clienttest.Put(t, cluster, "b", "not cached")
	resp, err = c.Get(clienttest.Within(t), "a/1")
	require.NoError(t, err)
	require.GreaterOrEqual(t, resp.Header.Revision, other, "progress brings the revision of what is not cached")

	ranges = cluster.Count("Range")
	_, err = c.Get(clienttest.Within(t), "a/1", clientv3.WithSerializable())
	require.NoError(t, err)
	_, err = c.Get(clienttest.Within(t), "a/1", clientv3.WithRev(rev))
	require.NoError(t, err)
	require.Equal(t, ranges, cluster.Count("Range"))

	resp, err = c.Get(clienttest.Within(t), "b")
	require.NoError(t, err)
	require.Equal(t, "not cached", string(resp.Kvs[0].Value))
}

// TestMetadataOfTheCaller has a get with a token of its own, which the server refuses. Memory answers only what the
// client's own login may read.
func TestMetadataOfTheCaller(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	clienttest.Put(t, cluster, "a/1", "secret")
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
	awaitServing(t, c, "a/1")
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

	ranges := cluster.Count("Range")
	_, err = c.Get(clientv3.WithRequireLeader(clienttest.Within(t)), "a/1")
	require.NoError(t, err)
	require.Equal(t, ranges+1, cluster.Count("Range"), "a floor")
	require.NotContains(t, cluster.Calls("Range")[ranges].Metadata, "token")
}
