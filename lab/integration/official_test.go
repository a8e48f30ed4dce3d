package integration_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// read returns the value of a key, "" if there is none.
func read(t *testing.T, c *clientv3.Client, key string) string {
	t.Helper()
	resp, err := c.Get(labtest.Context(t), key)
	require.NoError(t, err)
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

// queued runs f in the background, and returns when the session's key is in the queue.
func queued(t *testing.T, c *clientv3.Client, p program, prefix string, f func() error) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- f() }()
	key := fmt.Sprintf("%s/%x", prefix, p.lease)
	for ctx := labtest.Context(t); ; {
		resp, err := c.Get(ctx, key, clientv3.WithCountOnly())
		require.NoError(t, err)
		if resp.Count > 0 {
			return result
		}
		time.Sleep(pollInterval)
	}
}

// One kind has the lock and the other waits for it, until it is unlocked, or its lease ends as when the holder has died.
func TestLocksAreShared(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, one, other func(t *testing.T, lease int64) program) {
		ctx, prefix, c := labtest.Context(t), newPrefix(t), connect(t)
		holder, waiter := one(t, 0), other(t, 0)
		held, wanted := holder.mutex(prefix), waiter.mutex(prefix)
		require.NoError(t, held.Lock(ctx))
		require.Equal(t, fmt.Sprintf("%s/%x", prefix, holder.lease), held.Key())
		require.Equal(t, waiter.locked, wanted.TryLock(ctx))

		waiting := queued(t, c, waiter, prefix, func() error { return wanted.Lock(ctx) })
		requireNothingYet(t, waiting)
		done, err := holder.put(ctx, held, prefix+" guarded", "1")
		require.NoError(t, err)
		require.True(t, done)
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, <-waiting)
		done, err = holder.put(ctx, held, prefix+" guarded", "2")
		require.NoError(t, err)
		require.False(t, done)

		waiting = queued(t, c, holder, prefix, func() error { return held.Lock(ctx) })
		requireNothingYet(t, waiting)
		_, err = c.Revoke(ctx, clientv3.LeaseID(waiter.lease))
		require.NoError(t, err)
		require.NoError(t, <-waiting)
	})
}

// A process restarts with the other kind, and takes over its lease with what it had.
func TestLeasesAreTakenOver(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, one, other func(t *testing.T, lease int64) program) {
		ctx, prefix := labtest.Context(t), newPrefix(t)
		before := one(t, 0)
		lock := before.mutex(prefix + " lock")
		require.NoError(t, lock.Lock(ctx))
		office := before.election(prefix + " office")
		require.NoError(t, office.Campaign(ctx, "before"))

		after := other(t, before.lease)
		again := after.mutex(prefix + " lock")
		require.NoError(t, again.Lock(ctx))
		require.Equal(t, lock.Key(), again.Key())
		require.NoError(t, again.Unlock(ctx))

		resumed := after.resumed(prefix+" office", office.Key(), office.Rev())
		require.NoError(t, resumed.Proclaim(ctx, "after"))
		require.Equal(t, "after", read(t, connect(t), office.Key()))
		require.NoError(t, resumed.Resign(ctx))
		require.Equal(t, before.notLeader, office.Proclaim(ctx, "nobody"))
	})
}

// Programs of both kinds count together, each step under the lock.
func TestLocksExcludeEachOther(t *testing.T) {
	t.Parallel()
	const programs, rounds = 6, 10
	ctx, prefix, c := labtest.Context(t), newPrefix(t), connect(t)
	var inside atomic.Int32
	together(t, several(t, programs), func(_ int, p program) {
		m := p.mutex(prefix)
		for range rounds {
			if !assert.NoError(t, m.Lock(ctx)) {
				return
			}
			assert.Equal(t, int32(1), inside.Add(1), "two have the lock")
			n, _ := strconv.Atoi(read(t, c, prefix+" count")) // 0 at first
			done, err := p.put(ctx, m, prefix+" count", strconv.Itoa(n+1))
			assert.NoError(t, err)
			assert.True(t, done)
			inside.Add(-1)
			assert.NoError(t, m.Unlock(ctx))
		}
	})
	require.Equal(t, strconv.Itoa(programs*rounds), read(t, c, prefix+" count"))
}

func TestElectionsAreShared(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, one, other func(t *testing.T, lease int64) program) {
		ctx, prefix := labtest.Context(t), newPrefix(t)
		first, second := one(t, 0), other(t, 0)
		var observers sync.WaitGroup
		seen := map[string]chan string{}
		for name, kind := range kinds {
			ch := make(chan string, 10)
			seen[name] = ch
			p := kind(t, 0)
			observing, cancel := context.WithCancel(ctx)
			observers.Go(func() { p.observe(observing, prefix, ch) })
			t.Cleanup(func() { cancel(); observers.Wait() })
		}
		requireSeen := func(value string) {
			t.Helper()
			for name, ch := range seen {
				select {
				case got := <-ch:
					require.Equal(t, value, got, name)
				case <-ctx.Done():
					require.Fail(t, "nothing observed", "%s, instead of %s", name, value)
				}
			}
		}
		office, next := first.election(prefix), second.election(prefix)
		require.NoError(t, office.Campaign(ctx, "first"))
		requireSeen("first")
		waiting := queued(t, connect(t), second, prefix, func() error { return next.Campaign(ctx, "second") })
		requireNothingYet(t, waiting)
		require.NoError(t, office.Proclaim(ctx, "first still"))
		requireSeen("first still")
		require.NoError(t, office.Resign(ctx))
		require.NoError(t, <-waiting)
		requireSeen("second")
		require.NoError(t, next.Resign(ctx))
	})
}

// Programs of both kinds move amounts between accounts.
func TestTransfersLoseNothing(t *testing.T) {
	t.Parallel()
	const accounts, programs, transfers = 4, 6, 15
	for level, name := range []string{"SerializableSnapshot", "Serializable", "RepeatableReads"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix, c := newPrefix(t), connect(t)
			account := func(i int) string { return fmt.Sprint(prefix, "/", i%accounts) }
			for i := range accounts {
				_, err := c.Put(labtest.Context(t), account(i), "100")
				require.NoError(t, err)
			}
			together(t, several(t, programs), func(i int, p program) {
				for j := range transfers {
					from, to := account(i+j), account(i+j+1+j%2)
					assert.NoError(t, p.stm(level, func(s stm) error {
						a, err := strconv.Atoi(s.Get(from))
						if err != nil {
							return err
						}
						b, err := strconv.Atoi(s.Get(to))
						if err != nil {
							return err
						}
						s.Put(from, strconv.Itoa(a-1))
						s.Put(to, strconv.Itoa(b+1))
						return nil
					}))
				}
			})
			sum := 0
			for i := range accounts {
				n, err := strconv.Atoi(read(t, c, account(i)))
				require.NoError(t, err)
				sum += n
			}
			require.Equal(t, accounts*100, sum)
		})
	}
}

// Readers and writers of both kinds share a queue; each element is taken once.
func TestQueuesAreShared(t *testing.T) {
	t.Parallel()
	const programs, each = 4, 20
	prefix := newPrefix(t)
	var mu sync.Mutex
	got := map[string]int{}
	together(t, several(t, programs), func(i int, p program) {
		var work sync.WaitGroup
		work.Go(func() {
			for n := range each {
				assert.NoError(t, p.queue(prefix).Enqueue(fmt.Sprint(i, " ", n)))
			}
		})
		for range each {
			v, err := p.queue(prefix).Dequeue()
			assert.NoError(t, err)
			mu.Lock()
			got[v]++
			mu.Unlock()
		}
		work.Wait()
	})
	require.Len(t, got, programs*each)
}

// Writers of either kind exclude all others of both.
func TestRWMutexesExcludeEachOther(t *testing.T) {
	t.Parallel()
	prefix := newPrefix(t)
	var readers, writers atomic.Int32
	together(t, several(t, 6), func(i int, p program) {
		m := p.rwMutex(prefix)
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

// Participants of both kinds enter and leave together.
func TestDoubleBarriersAreShared(t *testing.T) {
	t.Parallel()
	const count = 4
	prefix := newPrefix(t)
	var in, out atomic.Int32
	together(t, several(t, count), func(_ int, p program) {
		b := p.barrier(prefix, count)
		in.Add(1)
		assert.NoError(t, b.Enter())
		assert.EqualValues(t, count, in.Load())
		out.Add(1)
		assert.NoError(t, b.Leave())
		assert.EqualValues(t, count, out.Load())
	})
	left, err := connect(t).Get(labtest.Context(t), prefix, clientv3.WithPrefix())
	require.NoError(t, err)
	require.Empty(t, left.Kvs)
}

// Programs of one kind own keys that those of the other write: they share the leasing keys.
func TestLeasingCachesAreShared(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, one, other func(t *testing.T, lease int64) program) {
		prefix := newPrefix(t) + "/"
		get, _, _ := one(t, 0).leasing(prefix + "leasing/")
		otherGet, set, remove := other(t, 0).leasing(prefix + "leasing/")
		for _, key := range []string{"a", "b"} {
			set(prefix+key, "old")
			require.Equal(t, "old", get(prefix+key))
		}
		owned, err := connect(t).Get(labtest.Context(t), prefix+"leasing/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		require.NoError(t, err)
		require.Equal(t, int64(2), owned.Count)
		set(prefix+"a", "new")
		remove(prefix + "b")
		for key, want := range map[string]string{"a": "new", "b": ""} {
			require.Equal(t, want, get(prefix+key))
			require.Equal(t, want, otherGet(prefix+key))
		}
	})
}
