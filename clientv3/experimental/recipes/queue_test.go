package recipe_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	recipe "github.com/quorate/quorate/clientv3/experimental/recipes"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// queue is what both kinds of queues can do.
type queue interface {
	Enqueue(val string) error
	Dequeue() (string, error)
}

// samePriority is a PriorityQueue whose elements have the same priority.
type samePriority struct{ *recipe.PriorityQueue }

func (q samePriority) Enqueue(val string) error { return q.PriorityQueue.Enqueue(val, 7) }

type newQueue func(c *clientv3.Client, key string) queue

// forQueues runs a test in virtual time for each kind of queue.
func forQueues(t *testing.T, test func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, newQueue newQueue)) {
	t.Helper()
	for name, newQueue := range map[string]newQueue{
		"Queue":         func(c *clientv3.Client, key string) queue { return recipe.NewQueue(c, key) },
		"PriorityQueue": func(c *clientv3.Client, key string) queue { return samePriority{recipe.NewPriorityQueue(c, key)} },
	} {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
				test(t, cluster, client, newQueue)
			})
		})
	}
}

func dequeue(q queue, got *string) pending {
	return call(func() (err error) {
		*got, err = q.Dequeue()
		return err
	})
}

// requireDequeued checks which elements are next.
func requireDequeued(t *testing.T, dequeue func() (string, error), want ...string) {
	t.Helper()
	for _, v := range want {
		got, err := dequeue()
		require.NoError(t, err)
		require.Equal(t, v, got)
	}
}

func TestQueueIsFIFO(t *testing.T) {
	forQueues(t, func(t *testing.T, _ *fakeetcd.Cluster, client *clientv3.Client, newQueue newQueue) {
		q, other := newQueue(client, "q"), newQueue(client, "q2")
		for _, v := range []string{"a", "b", "", "c"} {
			require.NoError(t, other.Enqueue("of another queue"))
			require.NoError(t, q.Enqueue(v))
		}
		requireDequeued(t, q.Dequeue, "a", "b", "", "c")
		require.Empty(t, clienttest.Keys(t, client, "q/"))
	})
}

func TestQueueKeys(t *testing.T) {
	_, client := clienttest.StartClient(t, 1)
	require.NoError(t, recipe.NewQueue(client, "q").Enqueue("v"))
	all := clienttest.Keys(t, client, "")
	require.Len(t, all, 1)
	require.Regexp(t, `^q/[0-9]{19}$`, all[0], "the time in nanoseconds")

	cluster, client := clienttest.StartClient(t, 1)
	q := recipe.NewPriorityQueue(client, "p")
	for _, pr := range []uint16{7, 65535, 7} {
		require.NoError(t, q.Enqueue("v", pr))
	}
	all = clienttest.Keys(t, client, "")
	slices.Sort(all)
	require.Equal(t, []string{
		"__p/00007", "__p/65535",
		"p/00007/0000000000000000", "p/00007/0000000000000001", "p/65535/0000000000000000",
	}, all)
	clienttest.Put(t, cluster, "p/00001/not-a-number", "")
	require.ErrorContains(t, q.Enqueue("v", 1), "not-a-number")
}

// An element is put between the read and the watch, or later. A compaction removes the revision to watch from.
func TestDequeueMissesNothing(t *testing.T) {
	for name, tt := range map[string]struct{ compacted, later bool }{
		"put": {}, "put and compact": {compacted: true}, "compact, put later": {compacted: true, later: true},
	} {
		t.Run(name, func(t *testing.T) {
			forQueues(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, newQueue newQueue) {
				q := newQueue(client, "q")
				release := clienttest.Hold(cluster, "Watch")
				var got string
				waiting := dequeue(q, &got)
				if !tt.later {
					require.NoError(t, q.Enqueue("v"))
				}
				if tt.compacted {
					compact(t, cluster)
				}
				requireWaiting(t, waiting)
				release()
				if tt.later {
					requireWaiting(t, waiting)
					require.NoError(t, q.Enqueue("v"))
				}
				succeed(t, waiting)
				require.Equal(t, "v", got)
			})
		})
	}
}

// Two readers have read the same element; it goes to one of them.
func TestDequeueTakesOnce(t *testing.T) {
	forQueues(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, newQueue newQueue) {
		q, rival := newQueue(client, "q"), newQueue(clienttest.Connect(t, cluster), "q")
		require.NoError(t, q.Enqueue("1"))
		require.NoError(t, q.Enqueue("2"))
		release := clienttest.Hold(cluster, "Txn")
		var got string
		slow := dequeue(q, &got)
		requireDequeued(t, rival.Dequeue, "1")
		release()
		succeed(t, slow)
		require.Equal(t, "2", got)
	})
}

// Two writers have read the same last number; each gets its own.
func TestSequenceNumbers(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		q, rival := recipe.NewPriorityQueue(client, "q"), recipe.NewPriorityQueue(clienttest.Connect(t, cluster), "q")
		release := clienttest.Hold(cluster, "Txn")
		slow := call(func() error { return q.Enqueue("slow", 1) })
		require.NoError(t, rival.Enqueue("first", 1))
		requireDequeued(t, rival.Dequeue, "first") // takes the number's key away again
		release()
		succeed(t, slow)
		requireDequeued(t, rival.Dequeue, "slow")
	})
}
