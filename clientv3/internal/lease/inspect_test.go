package lease

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/observe/introspect"
)

// A report formats only the leases that it shows.
func TestInspect(t *testing.T) {
	r := newRig(t)
	for id := range int64(1000) {
		r.keep(id + 1)
	}
	r.connect()
	r.take()
	r.answer(500, ttl)
	r.answer(900, ttl/2)
	engines := []*Engine{{machine: r.m}}
	var shown introspect.Leases
	allocs := testing.AllocsPerRun(1, func() {
		shown = introspect.Leases{}
		Inspect(engines, introspect.Options{Limit: 3}, &shown)
	})
	require.Less(t, allocs, 100.)
	require.Equal(t, 1000, shown.KeptAlive)
	require.Equal(t, 998, shown.Unanswered)
	require.Len(t, shown.Shortest, 3)
	require.Equal(t, "384", shown.Shortest[0].ID)
	require.Equal(t, "1f4", shown.Shortest[1].ID)
	require.Equal(t, introspect.Lease{ID: "1", Unanswered: true}, shown.Shortest[2])
}
