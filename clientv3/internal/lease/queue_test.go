package lease

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireOrdered checks the heap order, and that each lease knows its index.
func requireOrdered(t testing.TB, q queue) {
	t.Helper()
	for i, l := range q {
		if parent := q[(max(i, 1)-1)/2]; int(l.index) != i || parent.when > l.when {
			require.Fail(t, "not in order", "%d: index %d, at %d after %d", i, l.index, l.when, parent.when)
		}
	}
}

func TestQueue(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		var q queue
		held := map[*entry]instant{}
		for range 300 {
			if len(held) == 0 || r.IntN(5) < 3 {
				l, when := &entry{}, instant(r.IntN(40))
				q.push(l, when)
				held[l] = when
			} else {
				l := q[r.IntN(len(q))]
				q.remove(l)
				delete(held, l)
			}
			require.Len(t, q, len(held))
			requireOrdered(t, q)
		}
		var order []instant
		for l, when := q.next(); l != nil; l, when = q.next() {
			require.Equal(t, held[l], when)
			order = append(order, when)
			q.remove(l)
		}
		require.Len(t, order, len(held))
		require.True(t, slices.IsSorted(order))
	}
	_, when := queue(nil).next()
	require.Equal(t, never, when)
}
