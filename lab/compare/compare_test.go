package compare_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/compare"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/load"
	"github.com/quorate/quorate/lab/measure"
	"github.com/quorate/quorate/lab/report"
	"github.com/quorate/quorate/lab/scenario"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

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

// scripted is an experiment of one healthy row.
func scripted(_ context.Context, cfg scenario.Config) (report.Report, error) {
	if _, err := cfg.Connect(load.Target{Endpoints: []string{"http://a", "http://b"}}); err != nil {
		return report.Report{Failure: err.Error()}, err
	}
	return report.Report{Rows: []measure.Row{{Name: "healthy", End: time.Second}}}, nil
}

// clients returns clients that connect to nothing.
func clients(ids ...string) []compare.Client {
	var out []compare.Client
	for _, id := range ids {
		out = append(out, compare.Client{Client: report.Client{ID: id, Name: id}, Connect: func(load.Target) (scenario.Connection, error) {
			return scenario.Connection{}, nil
		}})
	}
	return out
}

func TestAFailedRunDoesNotEndTheComparison(t *testing.T) {
	boom := errors.New("boom")
	all := clients("a", "b")
	all[0].Connect = func(load.Target) (scenario.Connection, error) { return scenario.Connection{}, boom }
	result, err := compare.Run(t.Context(), compare.Config{Clients: all, Run: scripted})
	require.ErrorIs(t, err, boom)
	require.EqualError(t, err, "a: boom")
	require.Len(t, result.Runs, 2)
	assert.Equal(t, "boom", result.Runs[0].Report.Failure)
	assert.Empty(t, result.Runs[0].Report.Rows)
	assert.Len(t, result.Runs[1].Report.Rows, 1)
}

func TestTheEndOfItsContextEndsTheComparison(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result, err := compare.Run(ctx, compare.Config{
		Clients: clients("a", "b", "c"),
		Run: func(ctx context.Context, cfg scenario.Config) (report.Report, error) {
			rep, err := scripted(ctx, cfg)
			if cfg.Seed == 0 {
				rep.Interrupted = true
				cancel()
			}
			return rep, err
		},
	})
	require.NoError(t, err)
	assert.True(t, result.Interrupted)
	assert.Len(t, result.Runs, 1)
}

func TestDefaults(t *testing.T) {
	assert.Len(t, compare.DefaultFaults(), 6)
	all := compare.Clients()
	require.Len(t, all, 3)
	assert.Equal(t, compare.QuorateID, all[2].ID, "ours is the last")
	assert.Contains(t, all[1].Description, "keepalive every 10 s with a timeout of 3 s")
}
