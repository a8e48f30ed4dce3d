package recipes_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	officialclient "go.etcd.io/etcd/client/v3"
	officialconcurrency "go.etcd.io/etcd/client/v3/concurrency"
	official "go.etcd.io/etcd/client/v3/experimental/recipes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	recipe "github.com/quorate/quorate/clientv3/experimental/recipes"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func newSession(t *testing.T, client *clientv3.Client, opts ...concurrency.SessionOption) *concurrency.Session {
	t.Helper()
	s, err := concurrency.NewSession(client, opts...)
	require.NoError(t, err)
	t.Cleanup(s.Orphan)
	return s
}

func newOfficialSession(t *testing.T, client *officialclient.Client) *officialconcurrency.Session {
	t.Helper()
	s, err := officialconcurrency.NewSession(client)
	require.NoError(t, err)
	t.Cleanup(s.Orphan)
	return s
}

func call(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

func requireDone(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(labtest.Patience):
		require.Fail(t, "the call does not return")
	}
}

type queue interface {
	Enqueue(val string) error
	Dequeue() (string, error)
}

// Readers and writers of both clients share a queue; each element is taken once.
func TestQueueSharedWithTheOfficialClient(t *testing.T) {
	const each = 20
	queues := []queue{
		recipe.NewQueue(connect(t), "shared-queue"), official.NewQueue(labtest.Official(t, cluster.Endpoints()...), "shared-queue"),
		recipe.NewQueue(connect(t), "shared-queue"), official.NewQueue(labtest.Official(t, cluster.Endpoints()...), "shared-queue"),
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	for i, q := range queues {
		wg.Go(func() {
			for n := range each {
				assert.NoError(t, q.Enqueue(fmt.Sprint(i, n)))
			}
		})
		wg.Go(func() {
			for range each {
				v, err := q.Dequeue()
				assert.NoError(t, err)
				mu.Lock()
				got[v]++
				mu.Unlock()
			}
		})
	}
	requireDone(t, call(func() error {
		wg.Wait()
		return nil
	}))
	require.Len(t, got, len(queues)*each)
}

type locker interface {
	Lock() error
	Unlock() error
	RLock() error
	RUnlock() error
}

// Writers of either client exclude all others of both.
func TestRWMutexSharedWithTheOfficialClient(t *testing.T) {
	lockers := make([]locker, 0, 6)
	ours, theirs := connect(t), labtest.Official(t, cluster.Endpoints()...)
	for range 3 {
		lockers = append(lockers,
			recipe.NewRWMutex(newSession(t, ours), "shared-lock"),
			official.NewRWMutex(newOfficialSession(t, theirs), "shared-lock"))
	}
	var readers, writers atomic.Int32
	var wg sync.WaitGroup
	for i, m := range lockers {
		wg.Go(func() {
			for n := range 6 {
				if (i/2+n)%2 == 0 {
					assert.NoError(t, m.Lock())
					assert.EqualValues(t, 1, writers.Add(1))
					assert.Zero(t, readers.Load())
					writers.Add(-1)
					assert.NoError(t, m.Unlock())
					continue
				}
				assert.NoError(t, m.RLock())
				readers.Add(1)
				assert.Zero(t, writers.Load())
				readers.Add(-1)
				assert.NoError(t, m.RUnlock())
			}
		})
	}
	requireDone(t, call(func() error {
		wg.Wait()
		return nil
	}))
}

// Participants of both clients enter and leave together.
func TestDoubleBarrierSharedWithTheOfficialClient(t *testing.T) {
	const count = 4
	ours, theirs := connect(t), labtest.Official(t, cluster.Endpoints()...)
	var in, out atomic.Int32
	var wg sync.WaitGroup
	for i := range count {
		var b interface {
			Enter() error
			Leave() error
		} = recipe.NewDoubleBarrier(newSession(t, ours), "shared-barrier", count)
		if i%2 == 1 {
			b = official.NewDoubleBarrier(newOfficialSession(t, theirs), "shared-barrier", count)
		}
		wg.Go(func() {
			in.Add(1)
			assert.NoError(t, b.Enter())
			assert.EqualValues(t, count, in.Load())
			out.Add(1)
			assert.NoError(t, b.Leave())
			assert.EqualValues(t, count, out.Load())
		})
	}
	requireDone(t, call(func() error {
		wg.Wait()
		return nil
	}))
	left, err := ours.Get(labtest.Context(t), "shared-barrier", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Empty(t, left.Kvs)
}

// Waits go on when the member that they wait with is killed and comes back.
func TestWaitsOutliveARestart(t *testing.T) {
	client := connect(t)
	barrier := recipe.NewBarrier(client, "restart-barrier")
	require.NoError(t, barrier.Hold())
	q := recipe.NewQueue(client, "restart-queue")
	first := recipe.NewRWMutex(newSession(t, client), "restart-lock")
	require.NoError(t, first.Lock())
	second := recipe.NewRWMutex(newSession(t, client), "restart-lock")

	waits := []<-chan error{
		call(barrier.Wait),
		call(second.RLock),
		call(func() error {
			v, err := q.Dequeue()
			if err == nil && v != "v" {
				err = fmt.Errorf("got %q", v)
			}
			return err
		}),
	}
	require.Eventually(t, func() bool {
		resp, err := client.Get(t.Context(), "restart-lock/read/", clientv3.WithPrefix())
		return err == nil && len(resp.Kvs) == 1
	}, labtest.Patience, 10*time.Millisecond, "the reader waits")
	member := cluster.Members()[0]
	require.NoError(t, member.Kill())
	require.NoError(t, member.Restart(labtest.Context(t)))
	for _, w := range waits {
		require.Empty(t, w)
	}

	require.NoError(t, barrier.Release())
	require.NoError(t, first.Unlock())
	require.NoError(t, q.Enqueue("v"))
	for _, w := range waits {
		requireDone(t, w)
	}
	require.NoError(t, second.RUnlock())
}

// A process that has the lock dies; the one after it gets the lock when the lease has
// ended.
func TestRWMutexOfADeadProcess(t *testing.T) {
	client := connect(t)
	dead, err := concurrency.NewSession(client, concurrency.WithTTL(3), concurrency.WithContext(context.Background()))
	require.NoError(t, err)
	require.NoError(t, recipe.NewRWMutex(dead, "dead-lock").Lock())
	next := recipe.NewRWMutex(newSession(t, connect(t)), "dead-lock")
	got := call(next.Lock)
	dead.Orphan()
	requireDone(t, got)
	require.NoError(t, next.Unlock())
}
