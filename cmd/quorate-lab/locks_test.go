package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/cli/clitest"
	"github.com/quorate/quorate/lab/locks"
	"github.com/quorate/quorate/lab/locks/lockcheck"
	"github.com/quorate/quorate/lab/soak"
)

// execLocks runs the command "soak locks" over a runner that only answers.
func execLocks(ctx context.Context, result locks.Result, err error, args ...string) (status int, stdout, stderr string, asked locks.Config) {
	cmd := newSoakCommand(nil, func(_ context.Context, cfg locks.Config) (locks.Result, error) {
		asked = cfg
		result.Seed = cfg.Seed
		return result, err
	}, nil, nil)
	status, stdout, stderr = clitest.Exec(ctx, cmd, append([]string{"locks"}, args...)...)
	return status, stdout, stderr, asked
}

func TestLocksExitStatus(t *testing.T) {
	good := locks.Result{Outcome: soak.Outcome{Members: 3}, Attempts: map[lockcheck.Style]locks.Answers{lockcheck.Lock: {Taken: 7}}}
	bad := good
	bad.Verdict.Add(lockcheck.Guarded, "a write of a former holder")
	bad.Verdict.Count(lockcheck.Guarded, 1)
	early := good
	early.Interrupted = true
	checkExitStatus(t, func(ctx context.Context, r locks.Result, err error) (int, string, string) {
		status, stdout, stderr, _ := execLocks(ctx, r, err)
		return status, stdout, stderr
	}, soakOutcomes[locks.Result]{
		good: good, early: early, bad: bad,
		kept: "every promise was kept", shown: "guarded: a write of a former holder\n", counted: "guarded       2\n", first: "2 violations, the first: a write of a former holder",
	})
}

func TestLocksFlags(t *testing.T) {
	taken := locks.Result{Attempts: map[lockcheck.Style]locks.Answers{lockcheck.Lock: {Taken: 1}}}
	_, stdout, _, asked := execLocks(t.Context(), taken, nil,
		"--duration", "10m", "--members", "5", "--contenders", "9", "--locks", "2", "--seed", "42")
	assert.NotNil(t, asked.Log)
	asked.Log = nil
	assert.Equal(t, locks.Config{Config: soak.Config{Duration: 10 * time.Minute, Members: 5, Seed: 42}, Contenders: 9, Locks: 2}, asked)
	assert.Contains(t, stdout, "seed 42")

	_, _, _, first := execLocks(t.Context(), locks.Result{}, nil)
	_, _, _, second := execLocks(t.Context(), locks.Result{}, nil)
	assert.NotEqual(t, first.Seed, second.Seed, "each run has a seed of its own")

	status, _, stderr, _ := execLocks(t.Context(), locks.Result{}, nil, "--locks", "0")
	assert.Equal(t, cli.Failure, status)
	assert.Contains(t, stderr, "--duration, --members, --contenders and --locks must be more than 0")
}

func TestLocksRefusesBadConfig(t *testing.T) {
	status, stdout, stderr := execRoot(t.Context(), short(t), "soak", "locks", "--members", "2", "--contenders", "-1")
	assert.Equal(t, cli.Failure, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "the number of members must be 3 to 9")
	assert.Contains(t, stderr, "the number of contenders must be 1 to 200; it is -1")
}
