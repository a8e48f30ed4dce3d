//go:build experiment

package failover_test

import (
	"context"
	"flag"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/lab"
)

var busyFor = flag.Duration("busy", 10*time.Second, "for how long TestABusyMachineEjectsNobody keeps all cores busy")

// A process that is short of CPU gets answers late. No member is at fault.
func TestABusyMachineEjectsNoMember(t *testing.T) {
	c := start(t)
	w := connect(t, c, "")
	tr := begin(t, c, w)
	before, term := accepted(c), termOf(t, c.Members()...)
	w.reset()
	ctx, cancel := context.WithTimeout(t.Context(), *busyFor)
	defer cancel()
	keepBusy(ctx, 2*runtime.GOMAXPROCS(0))
	visits, after := w.visits(), accepted(c)
	tr.finish(t)

	t.Logf("%d gets, slowest %v; %d puts, slowest %v; states %v", len(tr.gets), slowest(tr.gets), len(tr.puts), slowest(tr.puts), visits)
	assert.Zero(t, visits[health.Dead])
	assert.Zero(t, visits[health.Lagging])
	assert.Equal(t, before, after, "no connection was made anew")
	if termOf(t, c.Members()...) == term { // members that are short of CPU lose their leader, and puts with it
		assert.Empty(t, tr.failedPuts())
	}
}

// termOf returns the highest term that one of the members knows.
func termOf(t *testing.T, members ...*lab.Member) uint64 {
	t.Helper()
	var term uint64
	for _, m := range members {
		status, err := m.Status(within(t, patience))
		require.NoError(t, err)
		term = max(term, status.GetRaftTerm())
	}
	return term
}

// keepBusy has n goroutines compute until ctx ends.
func keepBusy(ctx context.Context, n int) {
	var busy sync.WaitGroup
	for range n {
		busy.Go(func() {
			for ctx.Err() == nil {
				for x := range 1_000_000 {
					runtime.KeepAlive(x * x)
				}
			}
		})
	}
	busy.Wait()
}

// accepted returns how many connections each member was ever asked for by clients.
func accepted(c *lab.Cluster) []uint64 {
	var counts []uint64
	for _, m := range c.Members() {
		counts = append(counts, c.ClientLink(m).Stats().Accepted)
	}
	return counts
}
