package concurrency_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	. "github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

func TestSemaphoreHasNPlaces(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		const places, sessions = 3, 8
		var all []*Semaphore
		var results []<-chan error
		for range sessions {
			m := NewSemaphore(f.session(t), "pool", places)
			require.False(t, owns(t, f.client, m))
			all = append(all, m)
			results = append(results, clienttest.Go(func() error { return m.Acquire(t.Context(), "who") }))
		}
		for i, m := range all {
			for j := i; j < min(i+places, sessions); j++ {
				if i == 0 || j == i+places-1 { // the one that waited
					require.NoError(t, requireNow(t, results[j]))
				}
				require.True(t, owns(t, f.client, all[j]))
			}
			for j := i + places; j < sessions; j++ {
				requireWaiting(t, results[j])
			}
			require.Equal(t, "who", string(f.Get(m.Key()).Value))
			require.Equal(t, f.Get(m.Key()).CreateRevision, m.Rev())
			require.NoError(t, m.Release(t.Context()))
			require.False(t, owns(t, f.client, m))
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
					return m, clienttest.Go(func() error { return m.Acquire(t.Context(), "") })
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
			result := clienttest.Go(func() error { return s.Acquire(t.Context(), "") })
			requireWaiting(t, result)
			require.NoError(t, m.Unlock(t.Context()))
			require.NoError(t, requireNow(t, result))
		})
	}
}
