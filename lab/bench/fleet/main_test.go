package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/bench/fleet/clients"
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
		{[]string{"--clients", "2", "--processes", "3"}, "--processes must be 1 to the number of clients, 2; it is 3"},
		{[]string{"--phase", "idle|storm"}, "storm, badcert and swallow run alone"},
		{[]string{"--clients", "0"}, "--clients must be at least 1; it is 0"},
		{[]string{"--phase", "("}, "--phase: error parsing regexp"},
		{[]string{"--phase", "nosuch"}, `no phase matches --phase "nosuch"; there are idle, light, `},
		{[]string{"--client", "nosuch"}, `no kind of client is "nosuch"; there are official, Quorate`},
		{[]string{"--length", "0s"}, "--length must be positive; it is 0s"},
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
	all, err := parse(nil, &bytes.Buffer{})
	require.NoError(t, err)
	assert.Len(t, all.phases, 5, "the others run alone")
	assert.Equal(t, 100, all.processes)
	assert.Equal(t, 5*time.Second, opts.phases[0].length)
	assert.Equal(t, 7*time.Second, opts.phases[1].length)
	assert.Equal(t, 5*time.Second, opts.phases[2].length)
}

// TestOutages runs the phases that run alone.
func TestOutages(t *testing.T) {
	opts := build(t, "--clients", "3", "--processes", "2", "--phase", "storm", "--storm-length", "2s")
	r, err := measure(t.Context(), opts, func(string) {})
	require.NoError(t, err)
	require.Len(t, r.phases, 1)
	for _, kind := range kinds {
		for _, metric := range []string{
			"connects that failed", "leader after the start of the members", "all clients served after the start of the members",
			"RPCs received in the busiest second of the return",
		} {
			assert.Positive(t, r.phases[0].value(t, metric, kind), "%s, %s", metric, kind)
		}
	}
	opts.phases = []phase{allPhases()[6]}
	opts.phases[0].length = 2 * time.Second
	r, err = measure(t.Context(), opts, func(string) {})
	require.NoError(t, err)
	for _, kind := range kinds {
		assert.Positive(t, r.phases[0].value(t, "TLS handshakes", kind), kind)
	}
}

// TestFleetIsCounted compares what the members count with what the clients do. It
// compares counts with counts, so that a busy machine changes both.
func TestFleetIsCounted(t *testing.T) {
	opts := build(t, "--clients", "3", "--phase", "light|no-quorum", "--length", "5s")
	r, err := measure(t.Context(), opts, func(string) {})
	require.NoError(t, err)
	require.Len(t, r.phases, 2)
	light, outage := r.phases[0], r.phases[1]
	for _, kind := range kinds {
		assert.InDelta(t, 1, light.value(t, "  KV/Range", kind), 0.7, kind)
		assert.Greater(t, light.value(t, "gets answered", kind), 50.0, kind)
		assert.Greater(t, light.value(t, "RPCs per get", kind), 0.7, kind)
		assert.Less(t, outage.value(t, "gets answered", kind), 50.0, kind)
		assert.Positive(t, outage.value(t, "CPU of the live members, of one core", kind), kind)
	}
}

// build returns options, with the programs.
func build(t *testing.T, args ...string) options {
	t.Helper()
	opts, err := parse(args, &bytes.Buffer{})
	require.NoError(t, err)
	set, remove, err := programs.Build(t.Context())
	require.NoError(t, err)
	t.Cleanup(remove)
	opts.programs = set
	return opts
}

func (p *phaseResult) value(t *testing.T, metric, kind string) float64 {
	t.Helper()
	i := p.index(metric)
	require.GreaterOrEqual(t, i, 0, "no %q in %s", metric, p.name)
	require.Contains(t, p.lines[i].values, kind)
	return p.lines[i].values[kind]
}

// TestInterrupt ends a run while it measures. The leak check looks at what is left.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	opts := build(t, "--clients", "2", "--client", quorate, "--phase", "idle", "--length", "1h")
	_, err := startProcess(ctx, opts.programs[quorate], clients.Job{})
	require.ErrorContains(t, err, "no available endpoints", "a process that cannot start says why")
	_, err = measure(ctx, opts, func(what string) {
		if what == "Quorate: idle, 1h0m0s" {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
}
