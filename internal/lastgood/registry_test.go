package lastgood_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/lastgood"
)

// source has a list, and whether it is worth keeping.
type source struct {
	list string
	good bool
}

func (s *source) Stop() (string, bool) { return s.list, s.good }

func newRegistry(maxAge time.Duration) *lastgood.Registry[int, *source, string] {
	return lastgood.NewRegistry(maxAge, func(_ int, last string, ok bool) *source { return &source{last, ok} })
}

// One source serves all users of a key; the next one starts with its state, for a while.
func TestRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(time.Hour)
		first := r.Acquire(1)
		require.Same(t, first, r.Acquire(1))
		require.NotSame(t, first, r.Acquire(2))
		r.Release(2)
		require.False(t, first.good, "no state was kept")
		first.list, first.good = "a", true
		r.Release(1)
		time.Sleep(2 * time.Hour)
		require.Same(t, first, r.Acquire(1), "it runs")
		r.Release(1)
		r.Release(1)

		time.Sleep(time.Hour - 1)
		second := r.Acquire(1)
		require.Equal(t, source{"a", true}, *second)
		second.good = false
		r.Release(1)
		third := r.Acquire(1)
		require.Equal(t, source{}, *third, "a state not worth keeping")
		third.good = true
		r.Release(1)
		time.Sleep(time.Hour)
		require.False(t, r.Acquire(1).good, "an expired state")

		none := newRegistry(-1)
		none.Acquire(1).good = true
		none.Release(1)
		require.False(t, none.Acquire(1).good)
	})
}

// A program that opens channels to ever new targets needs bounded memory.
func TestRegistryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(time.Hour)
		for i := range lastgood.MaxIdle + 10 {
			r.Acquire(i).good = true
			r.Release(i)
			time.Sleep(time.Millisecond)
		}
		require.False(t, r.Acquire(9).good, "the oldest are forgotten")
		require.True(t, r.Acquire(10).good)
	})
}
