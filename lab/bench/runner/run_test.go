package runner

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/bench/report"
)

// tiny is the size of every case here, above the bound of the checks of single
// watches.
const tiny = 120

// TestEveryCase runs every case with both clients, too small to mean anything, on
// real servers.
func TestEveryCase(t *testing.T) {
	for _, c := range cases.All() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.ShortSize = tiny
			var told int
			rep, err := Run(t.Context(), Config{
				Cases: []cases.Case{c}, Programs: built, Repeat: 1, Short: true, Progress: func(string) { told++ },
			})
			require.NoError(t, err)
			require.Len(t, rep.Results, 1)
			assert.Equal(t, 2, told)
			for _, client := range []string{report.Official, report.Quorate} {
				samples := rep.Results[0].Samples[client]
				require.Len(t, samples, 1, client)
				assert.ElementsMatch(t, metricNames(c), slices.Collect(maps.Keys(samples[0])), client)
				if seconds, ok := samples[0]["time"]; ok {
					assert.Positive(t, seconds, client)
				}
			}
		})
	}
}

func metricNames(c cases.Case) []string {
	var names []string
	for _, m := range c.Metrics {
		names = append(names, m.Name)
	}
	return names
}

// TestRunGoesOn runs a case that fails before one that does not.
func TestRunGoesOn(t *testing.T) {
	latency := caseNamed(t, "latency")
	latency.ShortSize = tiny
	unknown := latency
	unknown.Name = "nosuch"
	rep, err := Run(t.Context(), Config{Cases: []cases.Case{unknown, latency}, Programs: built, Repeat: 1, Short: true})
	require.EqualError(t, err, `case nosuch: official: unknown case "nosuch"`)
	require.Len(t, rep.Results, 1)
	assert.Equal(t, "latency", rep.Results[0].Case.Name)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rep, err = Run(ctx, Config{Cases: []cases.Case{latency, latency}, Programs: built, Repeat: 1, Short: true})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, strings.Count(err.Error(), "case latency"), "nothing is begun after the end")
	assert.Empty(t, rep.Results)
}

func caseNamed(t *testing.T, name string) cases.Case {
	t.Helper()
	i := slices.IndexFunc(cases.All(), func(c cases.Case) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0)
	return cases.All()[i]
}

func TestTurns(t *testing.T) {
	assert.Equal(t, []string{report.Official, report.Quorate}, turns(0))
	assert.Equal(t, []string{report.Quorate, report.Official}, turns(1))
}

// TestMeasureFails runs what cannot succeed, in processes of their own.
func TestMeasureFails(t *testing.T) {
	r, err := newRig(t.Context(), caseNamed(t, "replay"), tiny)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.close()) })
	good := cases.Job{Case: "replay", Endpoints: r.endpoints, Size: tiny, Revision: r.revision}
	_, err = measure(t.Context(), built[report.Official], good, r)
	require.NoError(t, err)

	change := func(f func(*cases.Job)) cases.Job {
		j := good
		f(&j)
		return j
	}
	for _, tt := range []struct {
		want string
		job  cases.Job
	}{
		{"in place of the put at revision", change(func(j *cases.Job) { j.Revision-- })},
		{`unknown case "nosuch"`, change(func(j *cases.Job) { j.Case = "nosuch" })},
		{"no available endpoints", change(func(j *cases.Job) { j.Endpoints = nil })},
	} {
		_, err := measure(t.Context(), built[report.Official], tt.job, r)
		require.ErrorContains(t, err, tt.want)
	}

	// One event more than there is: the case waits for ever.
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	endless := change(func(j *cases.Job) { j.Case, j.Size = "live", 1 })
	_, err = measure(ctx, built[report.Official], endless, stopper(func() { cancel(enough) }))
	require.ErrorIs(t, err, enough)
}

// stopper is a Control that ends the test instead.
type stopper func()

func (s stopper) Kill(context.Context, string) error { return nil }

func (s stopper) Put(context.Context, int) error {
	s()
	return nil
}

func TestKillNeedsAMemberToSpare(t *testing.T) {
	r, err := newRig(t.Context(), cases.Case{Members: 1}, 0)
	require.NoError(t, err)
	defer func() { assert.NoError(t, r.close()) }()
	require.Error(t, r.Kill(t.Context(), "192.0.2.1:2379"))
	member := r.cluster.Members()[0]
	require.Error(t, r.Kill(t.Context(), r.cluster.ClientLink(member).Addr()))
	assert.True(t, member.Alive())
}
