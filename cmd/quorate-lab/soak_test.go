package main

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/cli/clitest"
	"github.com/quorate/quorate/lab/robustness"
)

// checked is the outcome of a run that checked something.
var checked = robustness.Outcome{Duration: time.Minute, Seed: 42}

func TestSoakFlags(t *testing.T) {
	ask := func(args ...string) (asked robustness.Config) {
		status, stdout, _ := clitest.Exec(t.Context(), newSoak("linear", "", "", func(_ context.Context, cfg robustness.Config) (robustness.Outcome, error) {
			asked = cfg
			return checked, nil
		}), args...)
		assert.Equal(t, cli.OK, status)
		assert.Contains(t, stdout, "seed 42")
		assert.NotNil(t, asked.Log)
		asked.Log = nil
		return asked
	}
	assert.Equal(t, robustness.Config{Duration: 10 * time.Minute, Seed: 42}, ask("--duration", "10m", "--seed", "42"))
	first, second := ask(), ask()
	assert.Equal(t, robustness.DefaultDuration, first.Duration)
	assert.NotEqual(t, first.Seed, second.Seed, "each run has a seed of its own")
}

func TestSoakExitStatus(t *testing.T) {
	good, early, bad := checked, checked, checked
	early.Interrupted = true
	v := bad.Verdict.Add("serving", "it is broken")
	v.Evidence = []string{"response 3"}
	bad.Verdict.Count("serving", 1)
	interrupted, interrupt := context.WithCancelCause(t.Context())
	interrupt(cli.SignalError(syscall.SIGINT))
	for _, tt := range []struct {
		name           string
		ctx            context.Context
		outcome        robustness.Outcome
		err            error
		status         int
		stdout, stderr string
	}{
		{"good", t.Context(), good, nil, cli.OK, "every promise was kept", ""},
		{"violations", t.Context(), bad, nil, cli.Negative, "\n  serving       2\n\nVIOLATION of serving: it is broken\n    response 3\n", "soak: 2 violations\n"},
		{"failure", t.Context(), robustness.Outcome{}, errors.New("no disk"), cli.Failure, "", "soak: no disk\n"},
		{"interrupted", interrupted, early, nil, 130, "every promise was kept", "the run was ended early: interrupt"},
		{"violations and interrupted", interrupted, bad, nil, cli.Negative, "VIOLATION", "2 violations\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, stdout, stderr := clitest.Exec(tt.ctx, newSoak("soak", "", "", func(context.Context, robustness.Config) (robustness.Outcome, error) {
				return tt.outcome, tt.err
			}))
			assert.Equal(t, tt.status, status)
			assert.Contains(t, stdout, tt.stdout)
			assert.Contains(t, stderr, tt.stderr)
		})
	}
}
