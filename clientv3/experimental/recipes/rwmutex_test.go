package recipe_test

import (
	"context"
	"testing"
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
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		m := make([]*recipe.RWMutex, 5)
		for i := range m {
			m[i], _ = newRWMutex(t, cluster)
		}
		r1, r2, w3, r4, w5 := m[0], m[1], m[2], m[3], m[4]
		require.NoError(t, r1.RLock())
		require.NoError(t, r2.RLock(), "readers are together")
		got3 := call(w3.Lock)
		got4 := call(r4.RLock) // for the writer before it
		got5 := call(w5.Lock)

		require.NoError(t, r2.RUnlock())
		requireWaiting(t, got3, got4, got5)
		require.NoError(t, r1.RUnlock())
		succeed(t, got3)
		requireWaiting(t, got4, got5)
		require.NoError(t, w3.Unlock())
		succeed(t, got4)
		requireWaiting(t, got5)
		require.NoError(t, r4.RUnlock())
		succeed(t, got5)
		require.NoError(t, w5.Unlock())
		require.Empty(t, clienttest.Keys(t, client, "m"))

		require.NoError(t, w5.Lock(), "it can be locked again")
		require.NoError(t, w5.Unlock())
	})
}

func TestRWMutexKeys(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		m, s := newRWMutex(t, cluster)
		for _, tt := range []struct {
			lock, unlock func() error
			key          string
		}{
			{m.RLock, m.RUnlock, `^m/read/[0-9]+$`},
			{m.Lock, m.Unlock, `^m/write/[0-9]+$`},
		} {
			require.ErrorContains(t, recipe.NewRWMutex(s, "m").Unlock(), "not locked")
			require.NoError(t, tt.lock())
			require.ErrorContains(t, m.Lock(), "unlock it first")
			require.ErrorContains(t, m.RLock(), "unlock it first")
			all := clienttest.Keys(t, client, "m")
			require.Len(t, all, 1)
			require.Regexp(t, tt.key, all[0])
			require.Equal(t, int64(s.Lease()), cluster.Get(all[0]).Lease)
			require.NoError(t, tt.unlock())
			require.NoError(t, tt.unlock(), "it does nothing")
		}
	})
}

// The keys of "m/read-only" and "m/x" have nothing to do with "m".
func TestRWMutexNeighbours(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		for _, key := range []string{"m/write-back", "m/read-only", "m2/write/1"} {
			clienttest.Put(t, cluster, key, "")
		}
		require.NoError(t, recipe.NewRWMutex(newSession(t, client), "m/x").Lock())
		m, _ := newRWMutex(t, cluster)
		succeed(t, call(m.Lock))
		require.NoError(t, m.Unlock())
		succeed(t, call(m.RLock))
	})
}

// A waiting client must learn that its key is gone: those who come later do not wait for it.
func TestRWMutexWaiterIsLost(t *testing.T) {
	for name, lock := range map[string]func(*recipe.RWMutex) error{
		"writer": (*recipe.RWMutex).Lock, "reader": (*recipe.RWMutex).RLock,
	} {
		for loss, lose := range map[string]func(t *testing.T, cluster *fakeetcd.Cluster, s *concurrency.Session){
			"lease expires":  expire,
			"session closed": func(t *testing.T, _ *fakeetcd.Cluster, s *concurrency.Session) { require.NoError(t, s.Close()) },
			"key is deleted": func(t *testing.T, _ *fakeetcd.Cluster, s *concurrency.Session) {
				all := clienttest.Keys(t, s.Client(), "m/")
				require.Len(t, all, 2)
				remove(t, s.Client(), all[1])
			},
		} {
			t.Run(name+", "+loss, func(t *testing.T) {
				clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
					first, _ := newRWMutex(t, cluster)
					require.NoError(t, first.Lock())
					m, s := newRWMutex(t, cluster)
					got := call(func() error { return lock(m) })
					requireWaiting(t, got)
					lose(t, cluster, s)
					requireSessionLost(t, got.result(t))
					require.NoError(t, first.Unlock())
					require.Empty(t, clienttest.Keys(t, client, "m"))
				})
			})
		}
	}
}

func TestRWMutexSessionHasEnded(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		lost, s := newRWMutex(t, cluster)
		// The lease ends between the writer's key and the look at those before it.
		cluster.Nth("Txn", 2, func(*fakeetcd.Call) { assert.NoError(t, cluster.ExpireLease(int64(s.Lease()))) })
		requireSessionLost(t, lost.Lock())

		closed, s2 := newRWMutex(t, cluster)
		require.NoError(t, s2.Close())
		requireSessionLost(t, closed.Lock())

		ctx, cancel := context.WithCancel(t.Context())
		sessions := []*concurrency.Session{newSession(t, client), newSession(t, client, concurrency.WithContext(ctx))}
		sessions[0].Orphan()
		cancel()
		for _, s := range sessions {
			m, double := recipe.NewRWMutex(s, "m"), recipe.NewDoubleBarrier(s, "b", 1)
			require.NoError(t, m.Lock(), "the lease lives on")
			require.NoError(t, m.Unlock())
			require.NoError(t, double.Enter())
			require.NoError(t, double.Leave())
			expire(t, cluster, s)
			err := m.Lock()
			requireSessionLost(t, err)
			require.ErrorIs(t, err, rpctypes.ErrLeaseNotFound)
			require.Empty(t, clienttest.Keys(t, client, "m"))
		}
	})
}

// etcd is unreachable for longer than the TTL of the session's lease. A waiting lock fails when the session
// ends: it does not wait for the delete of its key, which is deleted with the lease.
func TestRWMutexSessionIsLostInAnOutage(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		clienttest.Put(t, cluster, "m/write/1", "")
		s := newSession(t, client, concurrency.WithTTL(2))
		got := call(recipe.NewRWMutex(s, "m").Lock)
		requireWaiting(t, got)
		cluster.Member(0).Stop()
		<-s.Done()
		lost := time.Now()
		requireSessionLost(t, got.result(t))
		require.Less(t, time.Since(lost), 5*time.Second)
	})
}

// A failed lock leaves no key that blocks others.
func TestFailedRWMutexLeavesNoKey(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		m, _ := newRWMutex(t, cluster)
		for range 3 {
			cluster.Once("Txn", clienttest.LoseAnswer)
		}
		requireUnknown(t, m.Lock())
		require.Empty(t, clienttest.Keys(t, client, "m"))

		clienttest.Put(t, cluster, "m/write/1", "")
		clienttest.RefuseWatches(cluster, rpctypes.ErrGRPCPermissionDenied)
		require.Equal(t, rpctypes.ErrPermissionDenied, call(m.Lock).result(t))
		require.Equal(t, []string{"m/write/1"}, clienttest.Keys(t, client, "m"))
	})
}
