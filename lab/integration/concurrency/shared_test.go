package concurrency_test

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

	"github.com/quorate/quorate/lab/internal/labtest"
)

// brief is how long something is given to happen that must not.
const brief = 200 * time.Millisecond

// requireNothingYet shows that f has not returned.
func requireNothingYet(t *testing.T, result <-chan error) {
	t.Helper()
	select {
	case err := <-result:
		require.Fail(t, "it did not wait", "%v", err)
	case <-time.After(brief):
	}
}

// goes runs f in the background, and returns when the session's key is in the queue.
func goes(t *testing.T, c client, prefix string, f func() error) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- f() }()
	key := fmt.Sprintf("%s/%x", prefix, c.lease())
	require.Eventually(t, func() bool {
		_, exists, err := c.get(t.Context(), key)
		return err == nil && exists
	}, labtest.Patience, 10*time.Millisecond)
	return result
}

// One kind has the lock and the other waits for it.
func TestLocksAreShared(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, one, other func(t *testing.T, lease int64) client) {
		ctx, prefix := labtest.Context(t), newPrefix(t)
		holder, waiter := one(t, 0), other(t, 0)
		held, wanted := holder.mutex(prefix), waiter.mutex(prefix)
		require.NoError(t, held.Lock(ctx))
		require.Equal(t, fmt.Sprintf("%s/%x", prefix, holder.lease()), held.Key())
		require.Equal(t, waiter.locked(), wanted.TryLock(ctx))

		waiting := goes(t, waiter, prefix, func() error { return wanted.Lock(ctx) })
		requireNothingYet(t, waiting)
		done, err := holder.put(ctx, held, prefix+" guarded", "1")
		require.NoError(t, err)
		require.True(t, done)
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, <-waiting)
		done, err = holder.put(ctx, held, prefix+" guarded", "2")
		require.NoError(t, err)
		require.False(t, done)
		require.NoError(t, wanted.Unlock(ctx))
	})
}

// The lease of a holder is revoked, as it ends when the holder has died.
func TestLocksAreHandedOnWhenALeaseEnds(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, one, other func(t *testing.T, lease int64) client) {
		ctx, prefix := labtest.Context(t), newPrefix(t)
		holder, waiter := one(t, 0), other(t, 0)
		require.NoError(t, holder.mutex(prefix).Lock(ctx))
		waiting := goes(t, waiter, prefix, func() error { return waiter.mutex(prefix).Lock(ctx) })
		require.NoError(t, waiter.revoke(ctx, holder.lease()))
		require.NoError(t, <-waiting)
	})
}

// A process restarts with the other kind, and takes over its lease with what it had.
func TestLeasesAreTakenOver(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, one, other func(t *testing.T, lease int64) client) {
		ctx, prefix := labtest.Context(t), newPrefix(t)
		before := one(t, 0)
		lock := before.mutex(prefix + " lock")
		require.NoError(t, lock.Lock(ctx))
		office := before.election(prefix + " office")
		require.NoError(t, office.Campaign(ctx, "before"))

		after := other(t, before.lease())
		again := after.mutex(prefix + " lock")
		require.NoError(t, again.Lock(ctx))
		require.Equal(t, lock.Key(), again.Key())
		require.NoError(t, again.Unlock(ctx))

		resumed := after.resumed(prefix+" office", office.Key(), office.Rev())
		require.NoError(t, resumed.Proclaim(ctx, "after"))
		value, _, err := before.get(ctx, office.Key())
		require.NoError(t, err)
		require.Equal(t, "after", value)
		require.NoError(t, resumed.Resign(ctx))
		require.Equal(t, before.notLeader(), office.Proclaim(ctx, "nobody"))
	})
}

// Clients of both kinds count together, each step under the lock.
func TestLocksExcludeEachOther(t *testing.T) {
	t.Parallel()
	const clientsOfAKind, rounds = 3, 10
	ctx, prefix := labtest.Context(t), newPrefix(t)
	var inside atomic.Int32
	count := func(c client, m mutex) {
		if !assert.NoError(t, m.Lock(ctx)) {
			return
		}
		assert.Equal(t, int32(1), inside.Add(1), "two have the lock")
		value, _, err := c.get(ctx, prefix+" count")
		assert.NoError(t, err)
		n, _ := strconv.Atoi(value) // 0 at first
		done, err := c.put(ctx, m, prefix+" count", strconv.Itoa(n+1))
		assert.NoError(t, err)
		assert.True(t, done)
		inside.Add(-1)
		assert.NoError(t, m.Unlock(ctx))
	}
	var running sync.WaitGroup
	for _, kind := range kinds {
		for range clientsOfAKind {
			c := kind(t, 0)
			running.Go(func() {
				m := c.mutex(prefix)
				for range rounds {
					count(c, m)
				}
			})
		}
	}
	running.Wait()
	value, _, err := newOurs(t, 0).get(ctx, prefix+" count")
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(len(kinds)*clientsOfAKind*rounds), value)
}

func TestElectionsAreShared(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, one, other func(t *testing.T, lease int64) client) {
		ctx, prefix := labtest.Context(t), newPrefix(t)
		first, second := one(t, 0), other(t, 0)
		var observers sync.WaitGroup
		seen := map[string]chan string{}
		for name, kind := range kinds {
			ch := make(chan string, 10)
			seen[name] = ch
			c := kind(t, 0)
			observing, cancel := context.WithCancel(ctx)
			observers.Go(func() { c.observe(observing, prefix, func(value string) { ch <- value }) })
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
		waiting := goes(t, second, prefix, func() error { return next.Campaign(ctx, "second") })
		requireNothingYet(t, waiting)
		require.NoError(t, office.Proclaim(ctx, "first still"))
		requireSeen("first still")
		require.NoError(t, office.Resign(ctx))
		require.NoError(t, <-waiting)
		requireSeen("second")
		require.NoError(t, next.Resign(ctx))
	})
}

// Clients of both kinds move amounts between accounts, and none is lost.
func TestTransfers(t *testing.T) {
	t.Parallel()
	const accounts, clientsOfAKind, transfers = 4, 3, 15
	for level, name := range []string{"SerializableSnapshot", "Serializable", "RepeatableReads"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, prefix := labtest.Context(t), newPrefix(t)
			account := func(i int) string { return fmt.Sprint(prefix, "/", i%accounts) }
			require.NoError(t, newOurs(t, 0).stm(level, func(s stm) error {
				for i := range accounts {
					s.Put(account(i), "100")
				}
				return nil
			}))
			transfer := func(from, to string) func(stm) error {
				return func(s stm) error {
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
				}
			}
			var running sync.WaitGroup
			for _, kind := range kinds {
				for i := range clientsOfAKind {
					c := kind(t, 0)
					running.Go(func() {
						for j := range transfers {
							assert.NoError(t, c.stm(level, transfer(account(i+j), account(i+j+1+j%2))))
						}
					})
				}
			}
			running.Wait()
			sum := 0
			reader := newOurs(t, 0)
			for i := range accounts {
				value, _, err := reader.get(ctx, account(i))
				require.NoError(t, err)
				n, err := strconv.Atoi(value)
				require.NoError(t, err)
				sum += n
			}
			require.Equal(t, accounts*100, sum)
		})
	}
}
