package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/etcdtest"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// TestPermissionsAreWithdrawn withdraws the permission for one prefix, and narrows that for another one to a part. Each is
// dropped though only a third one is read, and what is left may be read as before.
func TestPermissionsAreWithdrawn(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Config{Users: map[string]string{"app": "app"}})
	ctx := grpctest.Within(t, testTimeout)
	root, app := etcd.Client, etcd.Connect(t, clientv3.Config{Username: "app", Password: "app"})
	_, err := root.RoleRevokePermission(ctx, "app", "\x00", "\x00")
	require.NoError(t, err)
	for _, prefix := range []string{"a/", "b/", "c/"} {
		_, err := root.RoleGrantPermission(ctx, "app", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermRead))
		require.NoError(t, err)
	}
	for _, key := range []string{"a/1", "b/1", "c/1", "c/z"} {
		_, err := root.Put(ctx, key, "v")
		require.NoError(t, err)
	}
	dropped := make(chan string, 10)
	c, err := cache.New(app, cache.Config{Prefixes: []string{"a/", "b/", "c/"}, ProbeInterval: time.Second, OnDrop: func(prefix string, err error) {
		assert.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
		dropped <- prefix
	}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.NoError(t, c.WaitSynced(ctx))
	next := func() string {
		select {
		case prefix := <-dropped:
			return prefix
		case <-ctx.Done():
			return "none in time"
		}
	}
	served := func(t *assert.CollectT) { require.NoError(t, c.Freshness().Err) }
	require.EventuallyWithT(t, served, testTimeout, time.Millisecond)

	_, err = root.RoleRevokePermission(ctx, "app", "b/", "b0")
	require.NoError(t, err)
	require.Equal(t, "b/", next())
	_, err = c.Get(ctx, "b/1", clientv3.WithSerializable())
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)

	_, err = root.RoleGrantPermission(ctx, "app", "c/", "c/m", clientv3.PermissionType(clientv3.PermRead))
	require.NoError(t, err)
	_, err = root.RoleRevokePermission(ctx, "app", "c/", "c0")
	require.NoError(t, err)
	require.Equal(t, "c/", next())
	_, err = c.Get(ctx, "c/z", clientv3.WithSerializable())
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	_, err = c.Get(ctx, "c/1")
	require.NoError(t, err, "the server's answer")
	before := c.Stats().Hits
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		_, err := c.Get(ctx, "a/1")
		require.NoError(t, err)
		require.Greater(t, c.Stats().Hits, before)
	}, testTimeout, time.Millisecond)
	require.Empty(t, dropped)
}

// TestADeletionAtTheCompactedRevision breaks the watch while a key is deleted and the store compacted at that very
// revision. Linearizable gets, from memory, show that it is gone.
func TestADeletionAtTheCompactedRevision(t *testing.T) {
	cluster := labtest.Start(t, lab.Config{Members: 1})
	ctx := grpctest.Within(t, testTimeout)
	client := labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()})
	direct := labtest.Client(t, clientv3.Config{Endpoints: []string{cluster.Members()[0].DirectEndpoint()}})
	for range 3 {
		_, err := direct.Put(ctx, "a/k", "v")
		require.NoError(t, err)
	}
	c, err := cache.New(client, cache.Config{Prefixes: []string{"a/"}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	get := func(n int64) func(t *assert.CollectT) {
		before := c.Stats().Hits
		return func(t *assert.CollectT) {
			resp, err := c.Get(ctx, "a/k")
			require.NoError(t, err)
			require.Equal(t, n, resp.Count)
			require.Greater(t, c.Stats().Hits, before)
		}
	}
	require.EventuallyWithT(t, get(1), testTimeout, time.Millisecond)
	link := cluster.ClientLink(cluster.Members()[0])
	link.Cut()
	deleted, err := direct.Delete(ctx, "a/k")
	require.NoError(t, err)
	_, err = direct.Put(ctx, "a/other", "v")
	require.NoError(t, err)
	_, err = direct.Compact(ctx, deleted.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	link.Heal()
	require.EventuallyWithT(t, get(0), testTimeout, time.Millisecond)
}
