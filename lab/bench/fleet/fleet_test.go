//go:build experiment

package main

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/bench/fleet/clients"
	"github.com/quorate/quorate/lab/servers"
)

// TestOutages runs the phases that run alone.
func TestOutages(t *testing.T) {
	opts := build(t, "--clients", "3", "--processes", "2", "--phase", "storm", "--length", "2s")
	r, err := measure(t.Context(), opts, func(string) {})
	require.NoError(t, err)
	require.Len(t, r, 1)
	for _, kind := range servers.Clients {
		for _, metric := range []string{
			"connects that failed", "all clients served after the start of the members", "RPCs received in the busiest second of the return",
		} {
			assert.Positive(t, r[0].value(t, metric, kind), "%s, %s", metric, kind)
		}
	}
	opts.phases = []phase{allPhases[6]}
	opts.phases[0].length = 2 * time.Second
	r, err = measure(t.Context(), opts, func(string) {})
	require.NoError(t, err)
	for _, kind := range servers.Clients {
		assert.Positive(t, r[0].value(t, "TLS handshakes", kind), kind)
	}
}

// TestFleetIsCounted compares what the members count with what the clients do. It
// compares counts with counts, so that a busy machine changes both.
func TestFleetIsCounted(t *testing.T) {
	opts := build(t, "--clients", "3", "--phase", "light|no-quorum", "--length", "5s")
	r, err := measure(t.Context(), opts, func(string) {})
	require.NoError(t, err)
	require.Len(t, r, 2)
	light, outage := r[0], r[1]
	for _, kind := range servers.Clients {
		assert.InDelta(t, 1, light.value(t, "RPCs received, per client and second", kind), 0.7, kind)
		assert.Greater(t, light.value(t, "gets answered", kind), 50.0, kind)
		assert.Less(t, outage.value(t, "gets answered", kind), 50.0, kind)
		assert.Positive(t, outage.value(t, "CPU of the live members, of one core", kind), kind)
	}
}

var built = sync.OnceValues(func() (servers.Program, error) {
	return servers.BuildProgram(context.Background(), "./bench/program", servers.Clients)
})

// build returns options, with the programs.
func build(t *testing.T, args ...string) options {
	t.Helper()
	opts, err := parse(args, io.Discard)
	require.NoError(t, err)
	opts.program, err = built()
	require.NoError(t, err)
	return opts
}

func (r result) value(t *testing.T, metric string, kind servers.Client) float64 {
	t.Helper()
	i := slices.IndexFunc(r.rows[kind], func(row row) bool { return row.metric == metric })
	require.GreaterOrEqual(t, i, 0, "no %q in %s", metric, r.name)
	return r.rows[kind][i].value
}

// TestInterrupt ends a run while it measures. The leak check looks at what is left.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	opts := build(t, "--clients", "2", "--phase", "idle", "--length", "1h")
	_, err := startProcess(ctx, opts.program[servers.Quorate], clients.Job{})
	require.ErrorContains(t, err, "no available endpoints", "a process that cannot start says why")
	_, err = measure(ctx, opts, func(what string) {
		if what == "official: idle, 1h0m0s" {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
}
