package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/cli/clitest"
	"github.com/quorate/quorate/lab/soak"
	"github.com/quorate/quorate/lab/watchcheck"
	"github.com/quorate/quorate/lab/watches"
)

// execSoak runs the command "soak" over a runner that only answers.
func execSoak(ctx context.Context, result watches.Result, err error, args ...string) (status int, stdout, stderr string, asked watches.Config) {
	cmd := newSoakCommand(func(_ context.Context, cfg watches.Config) (watches.Result, error) {
		asked = cfg
		result.Seed = cfg.Seed
		return result, err
	}, nil, nil, nil)
	status, stdout, stderr = clitest.Exec(ctx, cmd, args...)
	return status, stdout, stderr, asked
}

func TestSoakExitStatus(t *testing.T) {
	good := watches.Result{Outcome: soak.Outcome{Members: 3}, Delivered: watchcheck.Verdict{Watches: 7, Events: 99}}
	bad := good
	bad.Verdict.Add(watchcheck.Reliable, "an event is missing").Evidence = []string{"response 3"}
	bad.Verdict.Count(watchcheck.Reliable, 1)
	early := good
	early.Interrupted = true
	checkExitStatus(t, func(ctx context.Context, r watches.Result, err error) (int, string, string) {
		status, stdout, stderr, _ := execSoak(ctx, r, err)
		return status, stdout, stderr
	}, soakOutcomes[watches.Result]{
		good: good, early: early, bad: bad,
		kept: "every promise was kept", shown: "reliable: an event is missing\n    response 3\n", counted: "reliable      2\n", first: "2 violations, the first: an event is missing",
	})
}

func TestSoakFlags(t *testing.T) {
	_, stdout, _, asked := execSoak(t.Context(), watches.Result{Delivered: watchcheck.Verdict{Watches: 1}}, nil,
		"--duration", "10m", "--members", "5", "--watches", "9", "--writers", "2", "--seed", "42")
	assert.NotNil(t, asked.Log)
	asked.Log = nil
	assert.Equal(t, watches.Config{Config: soak.Config{Duration: 10 * time.Minute, Members: 5, Seed: 42}, Watches: 9, Writers: 2}, asked)
	assert.Contains(t, stdout, "seed 42")

	_, _, _, first := execSoak(t.Context(), watches.Result{}, nil)
	_, _, _, second := execSoak(t.Context(), watches.Result{}, nil)
	assert.NotEqual(t, first.Seed, second.Seed, "each run has a seed of its own")

	status, _, stderr, _ := execSoak(t.Context(), watches.Result{}, nil, "--members", "0")
	assert.Equal(t, cli.Failure, status)
	assert.Contains(t, stderr, "--duration, --members, --watches and --writers must be more than 0")
}

// TestSoakIsWatches holds "soak" and "soak watches" to be the same.
func TestSoakIsWatches(t *testing.T) {
	_, _, _, one := execSoak(t.Context(), watches.Result{}, nil, "--seed", "42", "--watches", "9")
	_, _, _, other := execSoak(t.Context(), watches.Result{}, nil, "watches", "--seed", "42", "--watches", "9")
	one.Log, other.Log = nil, nil
	assert.Equal(t, one, other)
	status, _, stderr, _ := execSoak(t.Context(), watches.Result{}, nil, "leases")
	assert.Equal(t, cli.Failure, status)
	assert.Contains(t, stderr, `unknown command "leases" for "soak"`)
}

func TestSoakRefusesBadConfig(t *testing.T) {
	status, stdout, stderr := execRoot(t.Context(), short(t), "soak", "--members", "2", "--watches", "-1")
	assert.Equal(t, cli.Failure, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "the number of members must be 3 to 9")
	assert.Contains(t, stderr, "the number of watches must be 1 to 1000; it is -1")
}
