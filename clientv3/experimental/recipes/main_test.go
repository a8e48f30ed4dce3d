package recipe_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	recipe "github.com/quorate/quorate/clientv3/experimental/recipes"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSession(t *testing.T, client *clientv3.Client, opts ...concurrency.SessionOption) *concurrency.Session {
	t.Helper()
	s, err := concurrency.NewSession(client, opts...)
	require.NoError(t, err)
	t.Cleanup(s.Orphan)
	return s
}

// expire ends a session as a dead process does.
func expire(t *testing.T, cluster *fakeetcd.Cluster, s *concurrency.Session) {
	t.Helper()
	require.NoError(t, cluster.ExpireLease(int64(s.Lease())))
}

// pending is a call under way.
type pending <-chan error

// call makes a call, and returns when it has returned or waits.
func call(f func() error) pending { return clienttest.Go(f) }

// result returns what the call returns.
func (p pending) result(t *testing.T) error {
	t.Helper()
	return clienttest.Next(t, p)
}

// succeed checks that calls return without an error.
func succeed(t *testing.T, calls ...pending) {
	t.Helper()
	for _, p := range calls {
		require.NoError(t, p.result(t))
	}
}

// requireWaiting checks that calls wait.
func requireWaiting(t *testing.T, calls ...pending) {
	t.Helper()
	synctest.Wait()
	for _, p := range calls {
		require.Empty(t, p, "the call does not wait")
	}
}

// compact writes something else and drops the history up to now.
func compact(t *testing.T, cluster *fakeetcd.Cluster) {
	t.Helper()
	for range 3 {
		clienttest.Put(t, cluster, "something else", "")
	}
	require.NoError(t, cluster.Compact(cluster.Revision()))
}

func remove(t *testing.T, client *clientv3.Client, key string, opts ...clientv3.OpOption) {
	t.Helper()
	_, err := client.Delete(t.Context(), key, opts...)
	require.NoError(t, err)
}

func requireClientClosed(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.True(t, clientv3.IsConnCanceled(err), "%v", err)
}

// Calls that wait, and further ones, end with their client.
func TestCallsEndWithTheClient(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		barrier, double := recipe.NewBarrier(client, "held"), recipe.NewDoubleBarrier(newSession(t, client), "b", 2)
		require.NoError(t, barrier.Hold())
		enterAll(t, double, participants(t, cluster, 2, 1)[0])
		clienttest.Put(t, cluster, "m/write/1", "")
		locks := []*recipe.RWMutex{recipe.NewRWMutex(newSession(t, client), "m"), recipe.NewRWMutex(newSession(t, client), "m")}
		q, p := recipe.NewQueue(client, "q"), recipe.NewPriorityQueue(client, "p")
		var got [2]string
		waiting := []pending{call(barrier.Wait), call(double.Leave), call(locks[0].Lock), dequeue(q, &got[0]), dequeue(samePriority{p}, &got[1])}
		requireWaiting(t, waiting...)
		require.NoError(t, client.Close())
		later := []pending{
			call(barrier.Wait), call(barrier.Hold), call(barrier.Release), call(locks[1].RLock),
			call(func() error { return q.Enqueue("v") }), call(func() error { return p.Enqueue("v", 1) }),
		}
		for _, p := range append(waiting, later...) {
			requireClientClosed(t, p.result(t))
		}
	})
}

func requireSessionLost(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, concurrency.ErrSessionExpired)
	require.ErrorContains(t, err, "recipe: ")
}
