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

// faults lose a request or its answer with the connection. The client cannot tell one from the other.
var faults = map[string]func(*fakeetcd.Call){"request lost": (*fakeetcd.Call).BreakConn, "answer lost": clienttest.LoseAnswer}

// forFaults runs a test in virtual time for each of the faults.
func forFaults(t *testing.T, test func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, fault func(*fakeetcd.Call))) {
	t.Helper()
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
				test(t, cluster, client, fault)
			})
		})
	}
}

func requireUnknown(t *testing.T, err error) {
	t.Helper()
	var unknown *retry.UnknownOutcomeError
	require.ErrorAs(t, err, &unknown)
}

func TestRequestIsLost(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		q := recipe.NewPriorityQueue(client, "q")
		cluster.Once("Txn", (*fakeetcd.Call).BreakConn)
		require.NoError(t, q.Enqueue("v", 1))
		require.Len(t, clienttest.Keys(t, client, "q/"), 1)
		cluster.Once("Txn", (*fakeetcd.Call).BreakConn)
		requireDequeued(t, q.Dequeue, "v")
		require.Empty(t, clienttest.Keys(t, client, "q/"))
	})
}

// The element is gone, and nothing tells who has taken it: it must neither be returned nor
// passed over in silence.
func TestDequeueOutcomeUnknown(t *testing.T) {
	forQueues(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, newQueue newQueue) {
		q := newQueue(client, "q")
		require.NoError(t, q.Enqueue("v"))
		require.NoError(t, q.Enqueue("next"))
		cluster.Once("Txn", clienttest.LoseAnswer)
		got, err := q.Dequeue()
		requireUnknown(t, err)
		require.Empty(t, got)
		require.Len(t, clienttest.Keys(t, client, "q/"), 1)
	})
}

// An answer that is lost is no reason to put an element twice, not even after another client has
// taken it.
func TestEnqueueOutcomeUnknown(t *testing.T) {
	forQueues(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, newQueue newQueue) {
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
		require.Empty(t, clienttest.Keys(t, client, "q/"))
	})
}

// A member dies with the request to lock, or with its answer.
func TestLockSurvivesALostAnswer(t *testing.T) {
	forFaults(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, fault func(*fakeetcd.Call)) {
		m, _ := newRWMutex(t, cluster)
		other, _ := newRWMutex(t, cluster)
		cluster.Once("Txn", fault)
		require.NoError(t, m.Lock())
		require.Len(t, clienttest.Keys(t, client, "m"), 1)
		waits := call(other.RLock)
		requireWaiting(t, waits)
		require.NoError(t, m.Unlock())
		succeed(t, waits)
	})
}

// Likewise with the request that opens the barrier: the second of the last participant.
func TestEnterSurvivesALostAnswer(t *testing.T) {
	forFaults(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, fault func(*fakeetcd.Call)) {
		b := participants(t, cluster, 2, 2)
		in := call(b[0].Enter)
		cluster.Nth("Txn", 2, fault)
		require.NoError(t, b[1].Enter())
		succeed(t, in)
		require.Equal(t, 1, cluster.PutCount("b/ready"), "it opens once")

		out := call(b[0].Leave)
		require.NoError(t, b[1].Leave())
		succeed(t, out)
		require.Empty(t, clienttest.Keys(t, client, "b"))
	})
}
