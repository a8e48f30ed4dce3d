package main

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/cli/clitest"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear"
	"github.com/quorate/quorate/lab/robustness/locks"
	"github.com/quorate/quorate/lab/robustness/resolvers"
	"github.com/quorate/quorate/lab/robustness/watches"
)

// checked is the outcome of a run that checked something.
var checked = robustness.Outcome{Duration: time.Minute, Seed: 42}

// ask runs "soak" without a cluster, and returns the configuration that a run would have.
func ask(t *testing.T, args ...string) (asked soak) {
	t.Helper()
	status, stdout, _ := clitest.Exec(t.Context(), newSoakCommand(func(s soak, _ context.Context) (robustness.Outcome, error) {
		asked = s
		return checked, nil
	}), args...)
	assert.Equal(t, cli.OK, status)
	assert.Contains(t, stdout, "seed 42")
	assert.NotNil(t, asked.Common().Log)
	asked.Common().Log = nil
	return asked
}

func TestSoakFlags(t *testing.T) {
	common := robustness.Config{Duration: 10 * time.Minute, Members: 5, Seed: 42}
	for args, want := range map[string]soak{
		"--watches 9 --writers 2":               &watches.Config{Config: common, Watches: 9, Writers: 2},
		"watches --watches 9 --writers 2":       &watches.Config{Config: common, Watches: 9, Writers: 2},
		"locks --contenders 9 --locks 2":        &locks.Config{Config: common, Contenders: 9, Locks: 2},
		"linear --callers 9 --pages evidence":   &linear.Config{Config: common, Callers: 9, PageDir: "evidence"},
		"linear --idempotent":                   &linear.Config{Config: common, Callers: 12, PageDir: ".", Idempotent: true},
		"resolvers --channels 9 --resolver=dns": &resolvers.Config{Config: common, Channels: 9, Resolvers: []string{"dns"}},
		"resolvers":                             &resolvers.Config{Config: common, Channels: 100, Resolvers: resolvers.Resolvers()},
	} {
		t.Run(args, func(t *testing.T) {
			assert.Equal(t, want, ask(t, append(strings.Fields(args), "--duration", "10m", "--members", "5", "--seed", "42")...))
		})
	}
	first, second := ask(t, "locks"), ask(t, "locks")
	assert.NotEqual(t, first.Common().Seed, second.Common().Seed, "each run has a seed of its own")
}

func TestSoakExitStatus(t *testing.T) {
	good, early, bad := checked, checked, checked
	early.Interrupted = true
	v := bad.Verdict.Add("serving", "it is broken")
	v.Evidence, v.Page = []string{"response 3"}, "group7.html"
	bad.Verdict.Count("serving", 1)
	interrupted, interrupt := context.WithCancelCause(t.Context())
	interrupt(cli.SignalError{Signal: syscall.SIGINT})
	for _, tt := range []struct {
		name           string
		ctx            context.Context
		outcome        robustness.Outcome
		err            error
		status         int
		stdout, stderr string
	}{
		{"good", t.Context(), good, nil, cli.OK, "every promise was kept", ""},
		{"violations", t.Context(), bad, nil, cli.Negative, "serving: it is broken\n    response 3\n    see group7.html\n", "2 violations, the first: it is broken"},
		{"failure", t.Context(), robustness.Outcome{}, errors.New("no disk"), cli.Failure, "", "soak: no disk\n"},
		{"interrupted", interrupted, early, nil, 130, "every promise was kept", "the run was ended early: interrupt"},
		{"violations and interrupted", interrupted, bad, nil, cli.Negative, "2 violations\n", "2 violations"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, stdout, stderr := clitest.Exec(tt.ctx, newSoakCommand(func(soak, context.Context) (robustness.Outcome, error) {
				return tt.outcome, tt.err
			}))
			assert.Equal(t, tt.status, status)
			assert.Contains(t, stdout, tt.stdout)
			assert.Contains(t, stderr, tt.stderr)
		})
	}
}
