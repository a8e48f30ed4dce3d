package recipe_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	recipe "github.com/quorate/quorate/clientv3/experimental/recipes"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

func TestBarrier(t *testing.T) {
	cluster, client := start(t)
	b := recipe.NewBarrier(client, "b")
	put(t, client, "b-2", "")
	put(t, client, "b/x", "")
	require.NoError(t, b.Wait(), "it is not held")

	require.NoError(t, b.Hold())
	require.Equal(t, recipe.ErrKeyExists, b.Hold())
	require.NotNil(t, cluster.Get("b"))
	waits := make([]pending, 3)
	for i := range waits {
		waits[i] = call(recipe.NewBarrier(clienttest.Connect(t, cluster), "b").Wait)
		waits[i].until(t, cluster, "Watch", i+1)
	}
	put(t, client, "b", "another value")
	for _, w := range waits {
		w.still(t)
	}
	require.NoError(t, b.Release())
	for _, w := range waits {
		require.NoError(t, w.result(t))
	}
	require.NoError(t, b.Release(), "it need not be held")
}

// Between the read and the watch the history goes, and with it the revision to watch from.
func TestBarrierCompaction(t *testing.T) {
	t.Run("held", func(t *testing.T) {
		cluster, client := start(t)
		b := recipe.NewBarrier(client, "b")
		require.NoError(t, b.Hold())
		release := holdWatch(t, cluster)
		wait := call(b.Wait)
		wait.until(t, cluster, "Watch", 1)
		compact(t, cluster)
		release()
		wait.until(t, cluster, "Range", 2)
		require.NoError(t, b.Release())
		require.NoError(t, wait.result(t))
	})
	for name, again := range map[string]bool{"released": false, "released and held again": true} {
		t.Run(name, func(t *testing.T) {
			cluster, client := start(t)
			b := recipe.NewBarrier(client, "b")
			require.NoError(t, b.Hold())
			release := holdWatch(t, cluster)
			wait := call(b.Wait)
			wait.until(t, cluster, "Watch", 1)
			require.NoError(t, b.Release())
			if again {
				require.NoError(t, b.Hold())
			}
			compact(t, cluster)
			release()
			require.NoError(t, wait.result(t))
		})
	}
}

func TestBarrierReleasedBetweenReadAndWatch(t *testing.T) {
	cluster, client := start(t)
	b := recipe.NewBarrier(client, "b")
	require.NoError(t, b.Hold())
	release := holdWatch(t, cluster)
	wait := call(b.Wait)
	wait.until(t, cluster, "Watch", 1)
	require.NoError(t, b.Release())
	require.NoError(t, b.Hold())
	release()
	require.NoError(t, wait.result(t))
}

func TestBarrierWatchBreaks(t *testing.T) {
	cluster, client := start(t)
	b := recipe.NewBarrier(client, "b")
	require.NoError(t, b.Hold())
	refuseWatches(cluster)
	require.Equal(t, rpctypes.ErrPermissionDenied, call(b.Wait).result(t))
}

func TestBarrierClientClosed(t *testing.T) {
	cluster, client := start(t)
	b := recipe.NewBarrier(client, "b")
	require.NoError(t, b.Hold())
	wait := call(b.Wait)
	wait.until(t, cluster, "Watch", 1)
	require.NoError(t, client.Close())
	requireClientClosed(t, wait.result(t))

	requireClientClosed(t, call(b.Wait).result(t))
	requireClientClosed(t, call(b.Hold).result(t))
	requireClientClosed(t, call(b.Release).result(t))
}
