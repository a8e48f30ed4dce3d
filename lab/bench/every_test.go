//go:build experiment

package bench

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/servers"
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
			var metrics [][]string
			for _, client := range servers.Clients {
				sample, err := take(t.Context(), c, client, true)
				require.NoError(t, err, client)
				metrics = append(metrics, slices.Sorted(maps.Keys(sample)))
				if seconds, ok := sample["time-s"]; ok {
					assert.Positive(t, seconds, client)
				}
			}
			assert.NotEmpty(t, metrics[0])
			assert.Equal(t, metrics[0], metrics[1])
		})
	}
}

func caseNamed(t *testing.T, name string) cases.Case {
	t.Helper()
	i := slices.IndexFunc(cases.All(), func(c cases.Case) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0)
	return cases.All()[i]
}

// TestMeasureFails runs what cannot succeed, in processes of their own.
func TestMeasureFails(t *testing.T) {
	r, err := newRig(t.Context(), caseNamed(t, "replay"), tiny)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.close()) })
	good := cases.Job{Case: "replay", Site: r.site(tiny, false)}
	_, err = measure(t.Context(), servers.Official, good, r)
	require.NoError(t, err)
	for want, change := range map[string]func(*cases.Job){
		"120 puts from revision": func(j *cases.Job) { j.Revision-- },
		`unknown case "nosuch"`:  func(j *cases.Job) { j.Case = "nosuch" },
		"no available endpoints": func(j *cases.Job) { j.Endpoints = nil },
	} {
		bad := good
		change(&bad)
		_, err := measure(t.Context(), servers.Official, bad, r)
		require.ErrorContains(t, err, want)
	}

	// One event more than there is: the case waits for ever.
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	endless := cases.Job{Case: "live", Site: r.site(1, false)}
	_, err = measure(ctx, servers.Official, endless, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel(enough) }))
	require.ErrorIs(t, err, enough)
}

func TestKillNeedsAMemberToSpare(t *testing.T) {
	r, err := newRig(t.Context(), cases.Case{Members: 1}, 0)
	require.NoError(t, err)
	defer func() { assert.NoError(t, r.close()) }()
	require.Error(t, r.kill(t.Context(), "192.0.2.1:2379"))
	member := r.cluster.Members()[0]
	require.Error(t, r.kill(t.Context(), r.cluster.ClientLink(member).Addr()))
	assert.True(t, member.Alive())
}
