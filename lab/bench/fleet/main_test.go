package main

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/bench/fleet/crowd"
	"github.com/quorate/quorate/lab/bench/internal/programs"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

func TestBadUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--clients", "0"}, "--clients must be at least 1; it is 0"},
		{[]string{"--phase", "("}, "--phase: error parsing regexp"},
		{[]string{"--phase", "nosuch"}, `no phase matches --phase "nosuch"; there are idle, light, `},
		{[]string{"--client", "nosuch"}, `no kind of client is "nosuch"; there are official, Quorate`},
		{[]string{"--ttl", "1500ms"}, "--ttl must be whole seconds, at least one; it is 1.5s"},
		{[]string{"--deadline", "0s"}, "--deadline must be positive; it is 0s"},
		{[]string{"extra"}, `unexpected argument "extra"`},
	} {
		var out, errOut bytes.Buffer
		assert.Equal(t, exitUsage, run(t.Context(), tt.args, &out, &errOut), tt.args)
		assert.Contains(t, errOut.String(), tt.want)
		assert.Empty(t, out.String())
	}
}

func TestPhaseLengths(t *testing.T) {
	opts, err := parse([]string{"--phase", "idle|light|frozen", "--length", "5s", "--light-length", "7s"}, &bytes.Buffer{})
	require.NoError(t, err)
	require.Len(t, opts.phases, 3)
	assert.Equal(t, 5*time.Second, opts.phases[0].length)
	assert.Equal(t, 7*time.Second, opts.phases[1].length)
	assert.Equal(t, 5*time.Second, opts.phases[2].length)
}

// TestFleetIsCounted compares what the members count with what the clients do. It
// compares counts with counts, so that a busy machine changes both.
func TestFleetIsCounted(t *testing.T) {
	var out, errOut bytes.Buffer
	status := run(t.Context(), []string{
		"--clients", "3", "--phase", "light|no-quorum", "--length", "4s", "--settle", "500ms", "--deadline", "1s", "--json",
	}, &out, &errOut)
	require.Equal(t, exitOK, status, "%s", &errOut)
	var r result
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	require.Len(t, r.Phases, 2)
	light, outage := r.Phases[0], r.Phases[1]
	for _, kind := range kinds {
		assert.InDelta(t, 1, light.value(t, "  KV/Range", kind), 0.7, kind)
		assert.Greater(t, light.value(t, "gets answered", kind), 50.0, kind)
		assert.Greater(t, light.value(t, "RPCs per get", kind), 0.7, kind)
		assert.Less(t, outage.value(t, "gets answered", kind), 50.0, kind)
		assert.Positive(t, outage.value(t, "connections refused", kind), kind)
		assert.Positive(t, outage.value(t, "CPU of the live members, of one core", kind), kind)
	}
}

func (p *phaseResult) value(t *testing.T, metric, kind string) float64 {
	t.Helper()
	i := p.index(metric)
	require.GreaterOrEqual(t, i, 0, "no %q in %s", metric, p.Name)
	require.Contains(t, p.Lines[i].Values, kind)
	return p.Lines[i].Values[kind]
}

// TestInterrupt ends a run while it measures. The leak check looks at what is left.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	opts, err := parse([]string{"--clients", "2", "--client", quorate, "--phase", "idle", "--settle", "100ms", "--length", "1h"}, &bytes.Buffer{})
	require.NoError(t, err)
	set, remove, err := programs.Build(ctx)
	require.NoError(t, err)
	defer remove()
	_, err = startProcess(ctx, set[quorate], crowd.Job{Clients: 1})
	require.ErrorContains(t, err, "no available endpoints", "a process that cannot start says why")
	opts.programs = set
	_, err = measure(ctx, opts, func(what string) {
		if what == "Quorate: idle, 1h0m0s" {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
}
