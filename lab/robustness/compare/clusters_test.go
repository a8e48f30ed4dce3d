//go:build experiment

package compare_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/robustness/compare"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/measure"
	"github.com/quorate/quorate/lab/robustness/report"
	"github.com/quorate/quorate/lab/robustness/scenario"
)

const ms = time.Millisecond

func faults(t *testing.T, names ...string) []fault.Fault {
	t.Helper()
	out, err := fault.Parse(names)
	require.NoError(t, err)
	return out
}

// TestEveryClientMeetsTheFault runs real clusters.
func TestEveryClientMeetsTheFault(t *testing.T) {
	var begun []string
	snapshots := 0
	result, err := compare.Run(t.Context(), compare.Config{
		Scenario: scenario.Config{
			Faults: faults(t, "leader-kill"), Healthy: 2500 * ms, Hold: 1500 * ms, Recovery: 500 * ms, CallTimeout: 3 * time.Second,
			Callers: 4, Seed: 3, Dir: t.TempDir(),
		},
		Begin: func(c compare.Client, number, of int) func(report.Snapshot) {
			assert.Equal(t, 3, of)
			assert.Len(t, begun, number-1)
			begun = append(begun, c.ID)
			return func(report.Snapshot) { snapshots++ }
		},
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"official", "official-tuned", compare.QuorateID}, begun)
	assert.Positive(t, snapshots)
	require.Len(t, result.Runs, 3)
	assert.False(t, result.Interrupted)
	for _, c := range result.Runs {
		rep := c.Report
		assert.Empty(t, rep.Failure, c.Name)
		assert.True(t, rep.OK(), "%s: %v, %v", c.Name, rep.Verdict, rep.Watches.Verdict)
		assert.Equal(t, report.Setup{
			Members: 3, Callers: 4, Pause: 5 * ms, CallTimeout: 3 * time.Second, Hold: 1500 * ms, LeaseTTL: 3 * time.Second, Seed: 3,
		}, rep.Setup)
		require.Len(t, rep.Rows, 2)
		assert.EqualValues(t, 4, rep.Rows[0].Leases.Kept, c.Name)
		row := rep.Rows[1]
		assert.Equal(t, "leader-kill", row.Name)
		assert.GreaterOrEqual(t, row.Fault.To-row.Fault.From, rep.Setup.Hold)
		assert.NotEmpty(t, row.Notes)
		for _, k := range history.Kinds() {
			assert.Positive(t, row.Kinds[k].Completed, k)
			assert.Positive(t, row.Kinds[k].LongestGap, k)
		}
		require.NotEmpty(t, row.Moments)
		m := row.Moments[0]
		assert.Regexp(t, "^m[123]$", m.Leader)
		for what, resumed := range map[string]measure.Resumption{
			"new gets": m.NewGets, "new puts": m.NewPuts, "new events": m.NewEvents, "gets": m.Gets, "puts": m.Puts, "watches": m.Watches,
		} {
			assert.Equal(t, 4, resumed.Callers, what)
		}
	}
}
