package recipe_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	recipe "github.com/quorate/quorate/clientv3/experimental/recipes"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/retry"
)

// lost has the request lost with its connection. The client cannot tell it from
// clienttest.LoseAnswer.
func lost(c *fakeetcd.Call) { c.BreakConn() }

func requireUnknown(t *testing.T, err error) {
	t.Helper()
	var unknown *retry.UnknownOutcomeError
	require.ErrorAs(t, err, &unknown)
}

func TestDequeueIsLost(t *testing.T) {
	forQueues(t, func(t *testing.T, newQueue func(*clientv3.Client, string) queue) {
		cluster, client := start(t)
		q := newQueue(client, "q")
		require.NoError(t, q.Enqueue("v"))
		cluster.Once("Txn", lost)
		got, err := q.Dequeue()
		require.NoError(t, err)
		require.Equal(t, "v", got)
		require.Empty(t, keys(t, client, "q/"))
	})
}

// The element is gone, and nothing tells who has taken it: it must neither be returned nor
// passed over in silence.
func TestDequeueOutcomeUnknown(t *testing.T) {
	forQueues(t, func(t *testing.T, newQueue func(*clientv3.Client, string) queue) {
		cluster, client := start(t)
		q := newQueue(client, "q")
		require.NoError(t, q.Enqueue("v"))
		require.NoError(t, q.Enqueue("next"))
		cluster.Once("Txn", clienttest.LoseAnswer)
		got, err := q.Dequeue()
		requireUnknown(t, err)
		require.Empty(t, got)
		require.Len(t, keys(t, client, "q/"), 1)
	})
}

// An answer that is lost is no reason to put an element twice, not even after another client has
// taken it.
func TestEnqueueOutcomeUnknown(t *testing.T) {
	forQueues(t, func(t *testing.T, newQueue func(*clientv3.Client, string) queue) {
		cluster, client := start(t)
		q, rival := newQueue(client, "q"), newQueue(clienttest.Connect(t, cluster), "q")
		var got string
		var err error
		cluster.Once("Txn", func(c *fakeetcd.Call) {
			if _, err = c.Execute(); err == nil {
				got, err = rival.Dequeue()
			}
			c.BreakConn()
		})
		requireUnknown(t, q.Enqueue("v"))
		require.NoError(t, err)
		require.Equal(t, "v", got)
		require.Empty(t, keys(t, client, "q/"))
	})
}

func TestEnqueueWithPriorityIsLost(t *testing.T) {
	cluster, client := start(t)
	cluster.Once("Txn", lost)
	require.NoError(t, recipe.NewPriorityQueue(client, "q").Enqueue("v", 1))
	require.Len(t, keys(t, client, "q/"), 1)
}

// A member dies with the request to lock, or with its answer.
func TestLockSurvivesALostAnswer(t *testing.T) {
	for name, fault := range map[string]func(*fakeetcd.Call){"request lost": lost, "answer lost": clienttest.LoseAnswer} {
		t.Run(name, func(t *testing.T) {
			cluster, client := start(t)
			m, _ := newRWMutex(t, cluster)
			other, _ := newRWMutex(t, cluster)
			cluster.Once("Txn", fault)
			require.NoError(t, m.Lock())
			require.Len(t, keys(t, client, "m"), 1)
			waits := waiting(t, cluster, other.RLock)
			require.NoError(t, m.Unlock())
			require.NoError(t, waits.result(t))
		})
	}
}

// Likewise with the request that opens the barrier, the second of who completes the number.
func TestEnterSurvivesALostAnswer(t *testing.T) {
	for name, fault := range map[string]func(*fakeetcd.Call){"request lost": lost, "answer lost": clienttest.LoseAnswer} {
		t.Run(name, func(t *testing.T) {
			cluster, client := start(t)
			b1, _ := newDoubleBarrier(t, cluster, 2)
			b2, _ := newDoubleBarrier(t, cluster, 2)
			in1 := waiting(t, cluster, b1.Enter)
			cluster.Nth("Txn", 2, fault)
			require.NoError(t, b2.Enter())
			require.NoError(t, in1.result(t))
			require.Equal(t, 1, cluster.PutCount("b/ready"), "it opens once")

			out := watching(t, cluster, 1, b1.Leave)
			require.NoError(t, b2.Leave())
			require.NoError(t, out.result(t))
			require.Empty(t, keys(t, client, "b"))
		})
	}
}
