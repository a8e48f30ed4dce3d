package compare_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/check"
	"github.com/quorate/quorate/lab/compare"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/measure"
	"github.com/quorate/quorate/lab/report"
	"github.com/quorate/quorate/lab/report/comparison"
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
	d := result.Document
	require.Len(t, d.Clients, 3)
	require.Len(t, result.Reports, 3)
	assert.False(t, d.Interrupted)
	assert.Equal(t, comparison.Setup{
		Members: 3, CallersPerKind: 4, PauseMS: 5, CallTimeoutMS: 3000, FaultHeldMS: 1500, LeaseTTLMS: 3000, Seed: 3,
	}, d.Setup)
	for i, c := range d.Clients {
		assert.Empty(t, c.Failure, c.Name)
		assert.Zero(t, c.Violations, "%s: %v", c.Name, c.Samples)
		require.Len(t, c.Runs, 1)
		requireWhole(t, d, c.Runs[0])
		for _, k := range history.Kinds() {
			assert.Positive(t, c.HealthyRate[k.ID()], c.Name)
		}
		for _, row := range result.Reports[i].Rows {
			assert.Positive(t, row.Watches.Delivered, c.Name)
		}
		assert.Positive(t, result.Reports[i].Rows[0].Leases.Renewals, c.Name)
		assert.EqualValues(t, 4, result.Reports[i].Rows[0].Leases.Kept, c.Name)
		var whole struct{ Rows []struct{ Name string } }
		require.NoError(t, json.Unmarshal(c.Report, &whole))
		assert.Len(t, whole.Rows, 2)
	}
}

// requireWhole checks that a run has every part, and that its timeline agrees with it.
func requireWhole(t *testing.T, d comparison.Document, r comparison.Run) {
	t.Helper()
	assert.Equal(t, "leader-kill", r.Fault)
	assert.GreaterOrEqual(t, r.HealMS, d.Setup.FaultHeldMS)
	assert.Greater(t, r.ReadyMS, r.HealMS)
	assert.NotEmpty(t, r.Events)
	buckets := len(r.Timeline.LagMS)
	assert.Greater(t, float64(buckets)*d.BucketMS, r.ReadyMS)
	assert.LessOrEqual(t, r.Timeline.FromMS, -900.0, "it begins a second before the fault")
	assert.Len(t, r.Timeline.MarginMS, buckets)
	assert.Len(t, r.Timeline.Expired, buckets)
	for _, k := range history.Kinds() {
		calls, f := r.Timeline.Calls[k.ID()], r.Figures.Calls[k.ID()]
		require.Len(t, calls.Completed, buckets)
		var failed, unknown int64
		for i := range buckets {
			failed += calls.Failed[i]
			unknown += calls.Unknown[i]
		}
		assert.Equal(t, f.Failed, failed, k)
		assert.Equal(t, f.Unknown, unknown, k)
		assert.Positive(t, f.Completed, k)
		assert.Positive(t, f.LongestGapMS, k)
	}
	require.GreaterOrEqual(t, len(r.Moments), 2)
	assert.Empty(t, r.Moments[0].Leader)
	m := r.Moments[1]
	assert.Regexp(t, "^m[123]$", m.Leader)
	for what, resumed := range map[string]comparison.Resumption{
		"new gets": m.NewGets, "new puts": m.NewPuts, "new events": m.NewEvents, "gets": m.Gets, "puts": m.Puts, "watches": m.Watches,
	} {
		assert.Equal(t, 4, resumed.Callers, what)
		assert.LessOrEqual(t, resumed.FirstMS, resumed.LastMS, what)
	}
}

// scripted is an experiment that has a known outcome: 100 gets in the first second, then
// a fault from 1.5 s to 3.5 s, and 50 gets while it is held.
func scripted(_ context.Context, cfg scenario.Config) (report.Report, error) {
	var m measure.Meter
	m.Draw(cfg.Timeline)
	m.Watch([]history.Scope{{All: true}})
	get := func(start, end time.Duration) {
		c := history.Call{Kind: history.LinearizableGet, Start: start, End: end}
		m.Invoke(c)
		m.Observe(c)
	}
	m.Begin("healthy", 0)
	for i := range time.Duration(100) {
		get(i*10*ms, i*10*ms+ms)
	}
	m.Begin("stop", 1000*ms)
	m.Inject(1500 * ms)
	m.Note(1501*ms, "m2 is stopped")
	m.States(1500*ms, map[string]string{"http://b": "serving"})
	m.States(1700*ms, map[string]string{"http://b": "dead", "elsewhere": "serving"})
	m.States(3900*ms, map[string]string{"http://b": "dead", "elsewhere": "serving"})
	for i := range time.Duration(50) {
		get(1500*ms+i*40*ms, 1520*ms+i*40*ms)
	}
	m.Lead(1600*ms, "m3", "m1")
	m.NewGet(1600*ms, 0, 1612*ms)
	m.NewPut(1600*ms, 0, 1613*ms)
	m.NewEvent(1600*ms, 0, 1614*ms)
	put := history.Call{Kind: history.Put, Start: 1600 * ms, End: 3600 * ms, Outcome: history.Unknown, Code: "Unavailable"}
	m.Invoke(put)
	m.Observe(put)
	m.Lease(history.LeaseEvent{Kind: history.LeaseRenewed, At: 1730 * ms, Margin: 1987 * ms})
	m.Lease(history.LeaseEvent{Kind: history.LeaseExpired, At: 3000 * ms})
	m.Repeat(3)
	m.Heal(3500 * ms)
	m.Ready(3600 * ms)
	m.End(4000 * ms)
	if _, err := cfg.Connect([]string{"http://a", "http://b"}); err != nil {
		return report.Report{Failure: err.Error()}, err
	}
	return report.Report{Setup: report.Setup{Members: 3, Callers: 1}, Rows: m.Rows(0)}, nil
}

// clients returns clients that connect to nothing.
func clients(ids ...string) []compare.Client {
	var out []compare.Client
	for _, id := range ids {
		out = append(out, compare.Client{ID: id, Name: id, Connect: func([]string) (scenario.Connection, error) {
			return scenario.Connection{States: func() map[string]string { return nil }}, nil
		}})
	}
	return out
}

func TestDocumentCountsFromTheInjection(t *testing.T) {
	result, err := compare.Run(t.Context(), compare.Config{
		Scenario: scenario.Config{Faults: faults(t, "stop")}, Clients: clients("a"), Run: scripted,
	})
	require.NoError(t, err)
	d := result.Document
	assert.InDelta(t, 50, d.BucketMS, 0)
	assert.InDelta(t, 1000, d.LateAfterMS, 0)
	assert.Equal(t, "stop", d.Faults[0].Name)
	c := d.Clients[0]
	assert.True(t, c.StatesKnown)
	assert.InDelta(t, 100, c.HealthyRate["linearizable_get"], 0)
	r := c.Runs[0]
	assert.InDelta(t, 2000, r.HealMS, 0)
	assert.InDelta(t, 2100, r.ReadyMS, 0)
	assert.Equal(t, []comparison.Event{{AtMS: 1, Text: "m2 is stopped"}}, r.Events)
	gets := r.Figures.Calls["linearizable_get"]
	assert.InDelta(t, 25, gets.CompletedPercent, 0, "50 in two seconds, of 100 in one")
	assert.InDelta(t, 520, gets.LongestGapMS, 0)
	assert.InDelta(t, 20, gets.SlowestMS, 0)
	assert.EqualValues(t, 1, r.Figures.Calls["put"].Unknown)
	assert.EqualValues(t, 3, r.Figures.Repeated)
	assert.EqualValues(t, 1, r.Figures.LeasesExpired)
	require.Len(t, r.Moments, 2)
	assert.Equal(t, comparison.Moment{
		AtMS: 100, Leader: "m3", Reporter: "m1", NewGets: comparison.Resumption{Callers: 1, FirstMS: 12, LastMS: 12},
		NewPuts: comparison.Resumption{Callers: 1, FirstMS: 13, LastMS: 13}, NewEvents: comparison.Resumption{Callers: 1, FirstMS: 14, LastMS: 14},
	}, r.Moments[1])
	assert.InDelta(t, -1000, r.Timeline.FromMS, 0)
	require.Len(t, r.Timeline.LagMS, 70)
	assert.EqualValues(t, 1, r.Timeline.Calls["put"].Unknown[62])
	assert.InDelta(t, 1987, r.Timeline.MarginMS[24], 0)
	assert.InDelta(t, -1, r.Timeline.MarginMS[25], 0)
	assert.EqualValues(t, 1, r.Timeline.Expired[50])
	assert.Equal(t, []comparison.Band{
		{Member: "elsewhere", State: "serving", FromMS: 200, ToMS: 2400},
		{Member: "m2", State: "serving", FromMS: 0, ToMS: 200},
		{Member: "m2", State: "dead", FromMS: 200, ToMS: 2400},
	}, r.Timeline.Bands)
}

func TestAFailedRunDoesNotEndTheComparison(t *testing.T) {
	boom := errors.New("boom")
	all := clients("a", "b")
	all[0].Connect = func([]string) (scenario.Connection, error) { return scenario.Connection{}, boom }
	result, err := compare.Run(t.Context(), compare.Config{Clients: all, Run: scripted})
	require.ErrorIs(t, err, boom)
	require.EqualError(t, err, "a: boom")
	require.Len(t, result.Document.Clients, 2)
	assert.Equal(t, "boom", result.Document.Clients[0].Failure)
	assert.Empty(t, result.Document.Clients[0].Runs)
	assert.Len(t, result.Document.Clients[1].Runs, 1)
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
	assert.True(t, result.Document.Interrupted)
	assert.Len(t, result.Document.Clients, 1)
}

func TestViolationsAreCountedAndTold(t *testing.T) {
	result, err := compare.Run(t.Context(), compare.Config{
		Clients: clients("a"),
		Run: func(ctx context.Context, cfg scenario.Config) (report.Report, error) {
			rep, err := scripted(ctx, cfg)
			rep.Verdict.Add(check.LostWrite, "put/0/1 is missing")
			rep.Verdict.Count(check.LostWrite, 3)
			return rep, err
		},
	})
	require.NoError(t, err, "what is found wrong with a client is no failure")
	assert.Equal(t, 4, result.Document.Clients[0].Violations)
	assert.Equal(t, []string{"lost_write: put/0/1 is missing"}, result.Document.Clients[0].Samples)
}

func TestDefaults(t *testing.T) {
	assert.Len(t, compare.DefaultFaults(), 6)
	all := compare.Clients()
	require.Len(t, all, 3)
	assert.Equal(t, compare.QuorateID, all[2].ID, "ours is the last")
	assert.Contains(t, all[1].Description, "keepalive every 10 s with a timeout of 3 s")
}

func TestMembersAreNamedWithAndWithoutTheScheme(t *testing.T) {
	result, err := compare.Run(t.Context(), compare.Config{
		Clients: clients("a"),
		Run: func(ctx context.Context, cfg scenario.Config) (report.Report, error) {
			rep, err := scripted(ctx, cfg)
			var m measure.Meter
			m.Draw(cfg.Timeline)
			m.States(1600*ms, map[string]string{"a": "serving"})
			m.States(2500*ms, map[string]string{"a": "serving"})
			return rep, err
		},
	})
	require.NoError(t, err)
	bands := result.Document.Clients[0].Runs[0].Timeline.Bands
	assert.Contains(t, bands, comparison.Band{Member: "m1", State: "serving", FromMS: 100, ToMS: 1000})
}
