package recipe_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	recipe "github.com/quorate/quorate/clientv3/experimental/recipes"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// newRWMutex returns a participant with a session and a client of its own.
func newRWMutex(t *testing.T, cluster *fakeetcd.Cluster) (*recipe.RWMutex, *concurrency.Session) {
	t.Helper()
	s := newSession(t, clienttest.Connect(t, cluster))
	return recipe.NewRWMutex(s, "m"), s
}

func TestRWMutex(t *testing.T) {
	cluster, client := start(t)
	r1, _ := newRWMutex(t, cluster)
	r2, _ := newRWMutex(t, cluster)
	w3, _ := newRWMutex(t, cluster)
	r4, _ := newRWMutex(t, cluster)
	w5, _ := newRWMutex(t, cluster)
	require.NoError(t, r1.RLock())
	require.NoError(t, r2.RLock(), "readers are together")
	got3 := waiting(t, cluster, w3.Lock)
	got4 := waiting(t, cluster, r4.RLock) // for the writer before it
	got5 := waiting(t, cluster, w5.Lock)

	require.NoError(t, r2.RUnlock())
	got3.still(t)
	require.NoError(t, r1.RUnlock())
	require.NoError(t, got3.result(t))
	got4.still(t)
	require.NoError(t, w3.Unlock())
	require.NoError(t, got4.result(t))
	got5.still(t)
	require.NoError(t, r4.RUnlock())
	require.NoError(t, got5.result(t))
	require.NoError(t, w5.Unlock())
	require.Empty(t, keys(t, client, "m"))

	require.NoError(t, w5.Lock(), "it can be locked again")
	require.NoError(t, w5.Unlock())
}

func TestRWMutexKeys(t *testing.T) {
	cluster, client := start(t)
	m, s := newRWMutex(t, cluster)
	for _, tt := range []struct {
		lock, unlock func() error
		key          string
	}{
		{m.RLock, m.RUnlock, `^m/read/[0-9]{19}$`},
		{m.Lock, m.Unlock, `^m/write/[0-9]{19}$`},
	} {
		require.NoError(t, tt.lock())
		all := keys(t, client, "m")
		require.Len(t, all, 1)
		require.Regexp(t, tt.key, all[0])
		require.Equal(t, int64(s.Lease()), cluster.Get(all[0]).Lease)
		require.NoError(t, tt.unlock())
	}
}

func TestRWMutexMisuse(t *testing.T) {
	cluster, _ := start(t)
	m, _ := newRWMutex(t, cluster)
	require.ErrorContains(t, m.Unlock(), "not locked")
	require.ErrorContains(t, m.RUnlock(), "not locked")
	require.NoError(t, m.Lock())
	require.ErrorContains(t, m.Lock(), "unlock it first")
	require.ErrorContains(t, m.RLock(), "unlock it first")
	require.NoError(t, m.Unlock())
	require.NoError(t, m.Unlock(), "it does nothing")
}

// The keys of "m/read-only" and "m/x" have nothing to do with "m".
func TestRWMutexNeighbours(t *testing.T) {
	cluster, client := start(t)
	put(t, client, "m/write-back", "")
	put(t, client, "m/read-only", "")
	put(t, client, "m2/write/1", "")
	inner := recipe.NewRWMutex(newSession(t, client), "m/x")
	require.NoError(t, inner.Lock())
	m, _ := newRWMutex(t, cluster)
	require.NoError(t, call(m.Lock).result(t))
	require.NoError(t, m.Unlock())
	require.NoError(t, call(m.RLock).result(t))
}

// A waiting client must learn that its key is gone: those who come later do not wait for it.
func TestRWMutexWaiterIsLost(t *testing.T) {
	cluster, client := start(t)
	for name, lock := range map[string]func(*recipe.RWMutex) error{
		"writer": (*recipe.RWMutex).Lock, "reader": (*recipe.RWMutex).RLock,
	} {
		for loss, lose := range map[string]func(t *testing.T, s *concurrency.Session){
			"lease expires":  func(t *testing.T, s *concurrency.Session) { expire(t, cluster, s) },
			"key is deleted": func(t *testing.T, _ *concurrency.Session) { remove(t, client, lastKey(t, client)) },
		} {
			t.Run(name+", "+loss, func(t *testing.T) {
				first, _ := newRWMutex(t, cluster)
				require.NoError(t, first.Lock())
				m, s := newRWMutex(t, cluster)
				got := waiting(t, cluster, func() error { return lock(m) })
				lose(t, s)
				requireSessionLost(t, got.result(t))
				require.NoError(t, first.Unlock())
				require.Empty(t, keys(t, client, "m"))
			})
		}
	}
}

func lastKey(t *testing.T, client *clientv3.Client) string {
	t.Helper()
	all := keys(t, client, "m/")
	require.NotEmpty(t, all)
	return all[len(all)-1]
}

// The lease ends between the writer's key and the look at those before it.
func TestRWMutexIsLostBeforeItsFirstRead(t *testing.T) {
	cluster, _ := start(t)
	m, s := newRWMutex(t, cluster)
	cluster.Nth("Txn", 2, func(*fakeetcd.Call) { assert.NoError(t, cluster.ExpireLease(int64(s.Lease()))) })
	cluster.Nth("Range", 1, func(*fakeetcd.Call) { assert.NoError(t, cluster.ExpireLease(int64(s.Lease()))) })
	requireSessionLost(t, m.Lock())
}

func TestRWMutexSessionHasEnded(t *testing.T) {
	cluster, client := start(t)
	t.Run("closed", func(t *testing.T) {
		m, s := newRWMutex(t, cluster)
		require.NoError(t, s.Close())
		requireSessionLost(t, m.Lock())
	})
	t.Run("lease gone", func(t *testing.T) {
		m, s := newRWMutex(t, cluster)
		s.Orphan()
		expire(t, cluster, s)
		err := m.Lock()
		requireSessionLost(t, err)
		require.ErrorIs(t, err, rpctypes.ErrLeaseNotFound)
	})
	t.Run("orphaned", func(t *testing.T) {
		m, s := newRWMutex(t, cluster)
		s.Orphan()
		require.NoError(t, m.Lock(), "the lease lives on")
		require.NoError(t, m.Unlock())
	})
	t.Run("closed while it waits", func(t *testing.T) {
		first, _ := newRWMutex(t, cluster)
		require.NoError(t, first.RLock())
		m, s := newRWMutex(t, cluster)
		got := waiting(t, cluster, m.Lock)
		require.NoError(t, s.Close())
		err := got.result(t)
		requireSessionLost(t, err)
		require.NoError(t, first.RUnlock())
	})
	require.Empty(t, keys(t, client, "m"))
}

// etcd is away for longer than the lease of the session lasts. A waiting client learns of it
// at once: it is not held up by a key that goes by itself, and cannot be deleted.
func TestRWMutexSessionIsLostInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster, client := start(t)
		put(t, client, "m/write/1", "")
		s := newSession(t, client, concurrency.WithTTL(2))
		got := waiting(t, cluster, recipe.NewRWMutex(s, "m").Lock)
		cluster.Member(0).Stop()
		<-s.Done()
		lost := time.Now()
		requireSessionLost(t, got.result(t))
		require.Less(t, time.Since(lost), 5*time.Second)
	})
}

func TestRWMutexClientClosed(t *testing.T) {
	cluster, client := start(t)
	put(t, client, "m/write/1", "")
	s := newSession(t, client)
	m := recipe.NewRWMutex(s, "m")
	got := waiting(t, cluster, m.Lock)
	require.NoError(t, client.Close())
	requireClientClosed(t, got.result(t))
	requireClientClosed(t, m.RLock())
}

// A failed lock leaves no key that blocks others.
func TestFailedRWMutexLeavesNoKey(t *testing.T) {
	t.Run("watch refused", func(t *testing.T) {
		cluster, client := start(t)
		put(t, client, "m/write/1", "")
		refuseWatches(cluster)
		m, _ := newRWMutex(t, cluster)
		require.Equal(t, rpctypes.ErrPermissionDenied, call(m.Lock).result(t))
		require.Equal(t, []string{"m/write/1"}, keys(t, client, "m"))
	})
	t.Run("answers lost", func(t *testing.T) {
		cluster, client := start(t)
		m, _ := newRWMutex(t, cluster)
		for range 3 {
			cluster.Once("Txn", clienttest.LoseAnswer)
		}
		requireUnknown(t, m.Lock())
		require.Empty(t, keys(t, client, "m"))
	})
}

func TestRWMutexExcludes(t *testing.T) {
	cluster, _ := start(t)
	var readers, writers atomic.Int32
	var wg sync.WaitGroup
	for i := range 6 {
		m, _ := newRWMutex(t, cluster)
		wg.Go(func() {
			for range 5 {
				if i%2 == 0 {
					if !assert.NoError(t, m.Lock()) {
						return
					}
					assert.EqualValues(t, 1, writers.Add(1))
					assert.Zero(t, readers.Load())
					writers.Add(-1)
					assert.NoError(t, m.Unlock())
					continue
				}
				if !assert.NoError(t, m.RLock()) {
					return
				}
				readers.Add(1)
				assert.Zero(t, writers.Load())
				readers.Add(-1)
				assert.NoError(t, m.RUnlock())
			}
		})
	}
	wg.Wait()
}
