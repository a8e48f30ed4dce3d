package concurrency_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	. "github.com/quorate/quorate/clientv3/concurrency"
)

// holds reports whether a comparison of IsOwner holds, according to the server.
func holds(t *testing.T, c *clientv3.Client, owner clientv3.Cmp) bool {
	t.Helper()
	resp, err := c.Txn(t.Context()).If(owner).Commit()
	require.NoError(t, err)
	return resp.Succeeded
}

func TestSemaphoreHasNPlaces(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		const places, sessions = 3, 8
		var all []*Semaphore
		var results []<-chan error
		for range sessions {
			m := NewSemaphore(f.session(t), "pool", places)
			require.False(t, holds(t, f.client, m.IsOwner()))
			all = append(all, m)
			results = append(results, goes(func() error { return m.Acquire(t.Context(), "who") }))
		}
		for i, m := range all {
			for j := i; j < min(i+places, sessions); j++ {
				if i == 0 || j == i+places-1 { // the one that waited
					require.NoError(t, requireNow(t, results[j]))
				}
				require.True(t, holds(t, f.client, all[j].IsOwner()))
			}
			for j := i + places; j < sessions; j++ {
				requireWaiting(t, results[j])
			}
			require.Equal(t, "who", string(f.Get(m.Key()).Value))
			require.Equal(t, f.Get(m.Key()).CreateRevision, m.Rev())
			require.NoError(t, m.Release(t.Context()))
			require.False(t, holds(t, f.client, m.IsOwner()))
			require.NoError(t, m.Release(t.Context()), "it does nothing")
		}
		require.Empty(t, f.keys(t, "pool"))
	})
}

// The holders are not the last keys ahead of a waiter, and any of them may leave.
func TestSemaphoreWhenAnyHolderLeaves(t *testing.T) {
	for name, leaves := range map[string]int{"first": 0, "last": 1} {
		t.Run(name, func(t *testing.T) {
			withFake(t, 1, func(t *testing.T, f fake) {
				var held []*Semaphore
				for range 2 {
					m := NewSemaphore(f.session(t), "pool", 2)
					require.NoError(t, m.Acquire(t.Context(), ""))
					held = append(held, m)
				}
				waits := func() (*Semaphore, <-chan error) {
					m := NewSemaphore(f.session(t), "pool", 2)
					return m, goes(func() error { return m.Acquire(t.Context(), "") })
				}
				_, third := waits()
				_, fourth := waits()
				reads := f.Count("Txn")
				require.NoError(t, held[leaves].Release(t.Context()))
				require.NoError(t, requireNow(t, third))
				requireWaiting(t, fourth)
				require.Equal(t, reads+2, f.Count("Txn"), "the release, and a read of one waiter")
				require.NoError(t, held[1-leaves].Release(t.Context()))
				require.NoError(t, requireNow(t, fourth))
			})
		})
	}
}

func TestSemaphoreOfOneIsALock(t *testing.T) {
	for _, places := range []int{-1, 0, 1} {
		withFake(t, 1, func(t *testing.T, f fake) {
			m := lock(t, f.session(t), "pool")
			s := NewSemaphore(f.session(t), "pool", places)
			result := goes(func() error { return s.Acquire(t.Context(), "") })
			requireWaiting(t, result)
			require.NoError(t, m.Unlock(t.Context()))
			require.NoError(t, requireNow(t, result))
		})
	}
}

func TestSemaphoreWaiterGivesUp(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(t *testing.T, f fake, s *Session, cancel context.CancelFunc)
		want error
	}{
		"its context": {func(_ *testing.T, _ fake, _ *Session, cancel context.CancelFunc) { cancel() }, context.Canceled},
		"its session": {func(t *testing.T, _ fake, s *Session, _ context.CancelFunc) { require.NoError(t, s.Close()) }, ErrSessionExpired},
		"its key": {func(t *testing.T, f fake, s *Session, _ context.CancelFunc) {
			_, err := f.client.Delete(t.Context(), keyOf(s, "pool"))
			require.NoError(t, err)
		}, ErrSessionExpired},
	} {
		t.Run(name, func(t *testing.T) {
			withFake(t, 1, func(t *testing.T, f fake) {
				for range 2 {
					require.NoError(t, NewSemaphore(f.session(t), "pool", 2).Acquire(t.Context(), ""))
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := f.session(t)
				m := NewSemaphore(s, "pool", 2)
				result := goes(func() error { return m.Acquire(ctx, "") })
				requireWaiting(t, result)
				tt.end(t, f, s, cancel)
				require.Equal(t, tt.want, requireNow(t, result))
				require.Len(t, f.keys(t, "pool"), 2)
				require.Empty(t, m.Key())
			})
		})
	}
}

// The history behind a waiter's read is compacted while its watch is broken.
func TestSemaphoreOverACompaction(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		first := NewSemaphore(f.session(t), "pool", 2)
		require.NoError(t, first.Acquire(t.Context(), ""))
		require.NoError(t, NewSemaphore(f.session(t), "pool", 2).Acquire(t.Context(), ""))
		result := goes(func() error { return NewSemaphore(f.session(t), "pool", 2).Acquire(t.Context(), "") })
		requireWaiting(t, result)
		f.stop()
		require.NoError(t, f.ExpireLease(f.Get(first.Key()).Lease))
		rev, err := f.Put("other", "")
		require.NoError(t, err)
		require.NoError(t, f.Compact(rev))
		f.start()
		require.NoError(t, <-result)
	})
}

func TestElectionIsOwner(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		e := NewElection(s, "office")
		require.False(t, holds(t, f.client, e.IsOwner()))
		require.NoError(t, e.Campaign(t.Context(), "one"))
		require.True(t, holds(t, f.client, e.IsOwner()))
		require.True(t, holds(t, f.client, ResumeElection(s, "office/", e.Key(), e.Rev()).IsOwner()))
		before := e.IsOwner()
		require.NoError(t, e.Resign(t.Context()))
		require.False(t, holds(t, f.client, e.IsOwner()))
		require.NoError(t, e.Campaign(t.Context(), "two"))
		require.False(t, holds(t, f.client, before), "a later key of the same name is another one")
		require.True(t, holds(t, f.client, e.IsOwner()))
	})
}

func TestSessionDeadline(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		start := time.Now()
		s := f.session(t, WithTTL(30))
		synctest.Wait()
		require.Equal(t, start.Add(30*time.Second), s.Deadline())
		time.Sleep(time.Hour)
		require.WithinRange(t, s.Deadline(), time.Now().Add(20*time.Second), time.Now().Add(30*time.Second))
		f.stop()
		last := s.Deadline()
		<-s.Done()
		require.Equal(t, last, s.Deadline())
		require.Equal(t, last, time.Now())
	})
}
