package recipe

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

func TestEphemeralKV(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	s, err := concurrency.NewSession(client)
	require.NoError(t, err)
	defer s.Orphan()

	kv, err := join(t.Context(), s, "p")
	require.NoError(t, err)
	stored := cluster.Get(kv.Key())
	require.Equal(t, kv.Revision(), stored.CreateRevision)
	require.Empty(t, kv.Value())

	require.NoError(t, kv.Put("v"))
	stored = cluster.Get(kv.Key())
	require.Equal(t, "v", string(stored.Value))
	require.Equal(t, int64(s.Lease()), stored.Lease, "it still goes with the session")

	require.NoError(t, kv.Delete())
	require.Nil(t, cluster.Get(kv.Key()))
	require.NoError(t, kv.Delete(), "it does nothing")
	require.ErrorContains(t, kv.Put("v"), "was deleted")
}

func TestZeroRemoteKV(t *testing.T) {
	var kv RemoteKV
	require.NoError(t, kv.Delete())
	require.Error(t, kv.Put("v"))
}

// A clock that stands still, or is coarse, gives no name twice.
func TestUniqueKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		names := map[string]bool{}
		for range 100 {
			names[uniqueKey("p")] = true
		}
		require.Len(t, names, 100)
		require.Equal(t, began, time.Now())
	})
}
