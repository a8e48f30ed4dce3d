package recipe_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
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

var queues = map[string]func(c *clientv3.Client, key string) queue{
	"Queue":         func(c *clientv3.Client, key string) queue { return recipe.NewQueue(c, key) },
	"PriorityQueue": func(c *clientv3.Client, key string) queue { return samePriority{recipe.NewPriorityQueue(c, key)} },
}

func forQueues(t *testing.T, f func(t *testing.T, newQueue func(c *clientv3.Client, key string) queue)) {
	for name, newQueue := range queues {
		t.Run(name, func(t *testing.T) { f(t, newQueue) })
	}
}

func dequeue(q queue, got *string) pending {
	return call(func() (err error) {
		*got, err = q.Dequeue()
		return err
	})
}

func TestQueueIsFIFO(t *testing.T) {
	forQueues(t, func(t *testing.T, newQueue func(*clientv3.Client, string) queue) {
		_, client := start(t)
		q, other := newQueue(client, "q"), newQueue(client, "q2")
		for _, v := range []string{"a", "b", "", "c"} {
			require.NoError(t, other.Enqueue("of another queue"))
			require.NoError(t, q.Enqueue(v))
		}
		for _, want := range []string{"a", "b", "", "c"} {
			got, err := q.Dequeue()
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		require.Empty(t, keys(t, client, "q/"))
	})
}

func TestQueueKeys(t *testing.T) {
	_, client := start(t)
	require.NoError(t, recipe.NewQueue(client, "q").Enqueue("v"))
	all := keys(t, client, "")
	require.Len(t, all, 1)
	require.Regexp(t, `^q/[0-9]{19}$`, all[0], "the time in nanoseconds")

	_, client = start(t)
	q := recipe.NewPriorityQueue(client, "p")
	for _, pr := range []uint16{7, 65535, 7} {
		require.NoError(t, q.Enqueue("v", pr))
	}
	all = keys(t, client, "")
	slices.Sort(all)
	require.Equal(t, []string{
		"__p/00007", "__p/65535",
		"p/00007/0000000000000000", "p/00007/0000000000000001", "p/65535/0000000000000000",
	}, all)
}

func TestPriorities(t *testing.T) {
	_, client := start(t)
	q := recipe.NewPriorityQueue(client, "q")
	for i, pr := range []uint16{3, 1, 65535, 1, 0, 256} {
		require.NoError(t, q.Enqueue(fmt.Sprintf("%d:%d", pr, i), pr))
	}
	for _, want := range []string{"0:4", "1:1", "1:3", "3:0", "256:5", "65535:2"} {
		got, err := q.Dequeue()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// An element comes while nothing watches yet, or later. Where the history goes as well, it cannot be watched from where
// the queue was read.
func TestDequeueMissesNothing(t *testing.T) {
	for name, tt := range map[string]struct{ compacted, later bool }{
		"put": {}, "put and compact": {compacted: true}, "compact, put later": {compacted: true, later: true},
	} {
		t.Run(name, func(t *testing.T) {
			forQueues(t, func(t *testing.T, newQueue func(*clientv3.Client, string) queue) {
				cluster, client := start(t)
				q := newQueue(client, "q")
				release := holdWatch(t, cluster)
				var got string
				waiting := dequeue(q, &got)
				waiting.until(t, cluster, "Watch", 1)
				if !tt.later {
					require.NoError(t, q.Enqueue("v"))
				}
				if tt.compacted {
					compact(t, cluster)
				}
				release()
				if tt.later {
					waiting.until(t, cluster, "Range", 2)
					require.NoError(t, q.Enqueue("v"))
				}
				require.NoError(t, waiting.result(t))
				require.Equal(t, "v", got)
			})
		})
	}
}

func TestDequeueClientClosed(t *testing.T) {
	forQueues(t, func(t *testing.T, newQueue func(*clientv3.Client, string) queue) {
		cluster, client := start(t)
		q := newQueue(client, "q")
		var got string
		waiting := dequeue(q, &got)
		waiting.until(t, cluster, "Watch", 1)
		require.NoError(t, client.Close())
		requireClientClosed(t, waiting.result(t))
		requireClientClosed(t, call(func() error { return q.Enqueue("v") }).result(t))
	})
}

// Two readers have read the same element; it goes to one of them.
func TestDequeueTakesOnce(t *testing.T) {
	forQueues(t, func(t *testing.T, newQueue func(*clientv3.Client, string) queue) {
		cluster, client := start(t)
		q, rival := newQueue(client, "q"), newQueue(clienttest.Connect(t, cluster), "q")
		require.NoError(t, q.Enqueue("1"))
		require.NoError(t, q.Enqueue("2"))
		held := make(chan struct{})
		txns := cluster.Count("Txn")
		cluster.Once("Txn", func(c *fakeetcd.Call) { _ = c.Hold(held) })
		var got string
		slow := dequeue(q, &got)
		slow.until(t, cluster, "Txn", txns+1)
		first, err := rival.Dequeue()
		require.NoError(t, err)
		require.Equal(t, "1", first)
		close(held)
		require.NoError(t, slow.result(t))
		require.Equal(t, "2", got)
	})
}

// Two writers have read the same last number; each gets its own.
func TestSequenceNumbers(t *testing.T) {
	cluster, client := start(t)
	q, rival := recipe.NewPriorityQueue(client, "q"), recipe.NewPriorityQueue(clienttest.Connect(t, cluster), "q")
	held := make(chan struct{})
	cluster.Once("Txn", func(c *fakeetcd.Call) { _ = c.Hold(held) })
	slow := call(func() error { return q.Enqueue("slow", 1) })
	slow.until(t, cluster, "Txn", 1)
	require.NoError(t, rival.Enqueue("first", 1))
	_, err := rival.Dequeue() // takes the number's key away again
	require.NoError(t, err)
	close(held)
	require.NoError(t, slow.result(t))
	got, err := rival.Dequeue()
	require.NoError(t, err)
	require.Equal(t, "slow", got)
}

func TestEnqueueBesideAForeignKey(t *testing.T) {
	_, client := start(t)
	put(t, client, "q/00001/not-a-number", "")
	err := recipe.NewPriorityQueue(client, "q").Enqueue("v", 1)
	require.ErrorContains(t, err, "not-a-number")
}

func TestManyReadersManyWriters(t *testing.T) {
	const readers, writers, each = 4, 4, 12
	forQueues(t, func(t *testing.T, newQueue func(*clientv3.Client, string) queue) {
		cluster, _ := start(t)
		var wg sync.WaitGroup
		for w := range writers {
			q := newQueue(clienttest.Connect(t, cluster), "q")
			wg.Go(func() {
				for i := range each {
					assert.NoError(t, q.Enqueue(fmt.Sprintf("%d %02d", w, i)))
				}
			})
		}
		var mu sync.Mutex
		got := map[string]int{}
		for range readers {
			q := newQueue(clienttest.Connect(t, cluster), "q")
			wg.Go(func() {
				last := map[string]string{} // of each writer
				for range writers * each / readers {
					v, err := q.Dequeue()
					if !assert.NoError(t, err) {
						return
					}
					writer, _, _ := strings.Cut(v, " ")
					assert.Less(t, last[writer], v, "in the order of the writer")
					last[writer] = v
					mu.Lock()
					got[v]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		require.Len(t, got, writers*each)
		for v, n := range got {
			assert.Equal(t, 1, n, v)
		}
	})
}
