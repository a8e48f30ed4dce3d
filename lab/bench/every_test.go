//go:build experiment

package bench

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/bench/cases"
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
			c.ShortSize, c.ValueSize = tiny, min(c.ValueSize, valueSize)
			s := newStage(c, true)
			defer func() { require.NoError(t, s.clear()) }()
			for _, client := range []string{official, quorate} {
				sample, err := s.sample(t.Context(), client)
				require.NoError(t, err, client)
				assert.ElementsMatch(t, metricNames(c), slices.Collect(maps.Keys(sample)), client)
				if seconds, ok := sample["time"]; ok {
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

func caseNamed(t *testing.T, name string) cases.Case {
	t.Helper()
	i := slices.IndexFunc(cases.All(), func(c cases.Case) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0)
	return cases.All()[i]
}

// TestMeasureFails runs what cannot succeed, in processes of their own.
func TestMeasureFails(t *testing.T) {
	set, err := built()
	require.NoError(t, err)
	r, err := newRig(t.Context(), caseNamed(t, "replay"), tiny)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.close()) })
	good := cases.Job{Case: "replay", Endpoints: r.endpoints, Size: tiny, Revision: r.revision}
	_, err = measure(t.Context(), set[official], good, r)
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
		_, err := measure(t.Context(), set[official], tt.job, r)
		require.ErrorContains(t, err, tt.want)
	}

	// One event more than there is: the case waits for ever.
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	endless := change(func(j *cases.Job) { j.Case, j.Size = "live", 1 })
	_, err = measure(ctx, set[official], endless, stopper(func() { cancel(enough) }))
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
