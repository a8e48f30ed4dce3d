//go:build experiment

package failover_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab"
)

// Members that are asked to end, as in an upgrade, tell their clients so, and these leave
// in time.
//
// Of the puts only those are lost that are under way when leadership is handed over. A
// leader that is about to end drops what followers forward to it from the moment at which
// it begins to hand over, without an error: the follower waits for the put to be applied,
// and no client can know that it never will be.
func TestARollingRestartFailsNothing(t *testing.T) {
	c := start(t)
	w := connect(t, c, "")
	tr := begin(t, c, w, ttl)
	var handovers []time.Time
	began := time.Now()
	for _, m := range c.Members() {
		w.say("%s is terminated", m.Name())
		if leaderOf(t, c) == m {
			e := awaitElection(t, c, tr, m)
			restart(t, c, m)
			reported, _ := e.result(t)
			handovers = append(handovers, reported)
		} else {
			restart(t, c, m)
		}
		w.say("%s is back", m.Name())
	}
	took := time.Since(began)
	w.awaitUse(t, c.Members()...)
	tr.finish(t)

	t.Logf("%d gets, longest gap %v, slowest %v; %d puts, slowest %v, outcomes unknown %d in %d handovers; in %v",
		len(tr.gets), longestGap(tr.gets, began, began.Add(took)), slowest(tr.gets), len(tr.puts), slowest(tr.puts), len(tr.failedPuts()), len(handovers), took)
	require.NotEmpty(t, handovers)
	for _, p := range tr.failedPuts() {
		assert.True(t, slices.ContainsFunc(handovers, func(at time.Time) bool { return p.begin.Before(at) && p.end.After(at) }),
			"a put failed that was not under way while leadership was handed over: %v", p)
	}
	assert.LessOrEqual(t, len(tr.failedPuts()), len(handovers)*callers)
}

// restart ends a member gracefully and starts it again.
func restart(t *testing.T, c *lab.Cluster, m *lab.Member) {
	t.Helper()
	require.NoError(t, m.Terminate(within(t, patience)))
	require.NoError(t, m.Restart(within(t, patience)))
	require.NoError(t, c.WaitReady(within(t, patience)))
}
