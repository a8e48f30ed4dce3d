package main

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/locks"
	"github.com/quorate/quorate/lab/locks/lockcheck"
)

// execLocks runs the command "soak locks" over a runner that only answers.
func execLocks(ctx context.Context, result locks.Result, err error, args ...string) (status int, stdout, stderr string, asked locks.Config) {
	cmd := newSoakCommand(nil, func(_ context.Context, cfg locks.Config) (locks.Result, error) {
		asked = cfg
		result.Seed = cfg.Seed
		return result, err
	}, nil)
	var out, errOut bytes.Buffer
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"locks"}, args...))
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	status = execute(ctx, cmd)
	return status, out.String(), errOut.String(), asked
}

func TestLocksExitStatus(t *testing.T) {
	good := locks.Result{Members: 3, Attempts: map[lockcheck.Style]locks.Answers{lockcheck.Lock: {Taken: 7}}}
	bad := good
	bad.Verdict.Counts = map[lockcheck.Promise]int{lockcheck.Guarded: 2}
	bad.Verdict.Violations = []lockcheck.Violation{{Promise: lockcheck.Guarded, Message: "a write of a former holder"}}
	early := good
	early.Interrupted = true
	interrupted, interrupt := context.WithCancelCause(t.Context())
	interrupt(signalError{syscall.SIGINT})

	tests := []struct {
		name   string
		ctx    context.Context
		result locks.Result
		err    error
		status int
		stdout string
		stderr string
	}{
		{"good", t.Context(), good, nil, exitOK, "every promise was kept", ""},
		{"violations", t.Context(), bad, nil, exitViolation, "guarded: a write of a former holder\n", "2 violations, the first: a write of a former holder"},
		{"failure", t.Context(), locks.Result{}, errors.New("no disk"), exitFailure, "", "quorate: no disk\n"},
		{"interrupted", interrupted, early, nil, 130, "every promise was kept", "the run was ended early: interrupt"},
		{"violations and interrupted", interrupted, bad, nil, exitViolation, "guarded       2\n", "2 violations"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, stdout, stderr, _ := execLocks(tt.ctx, tt.result, tt.err)
			assert.Equal(t, tt.status, status)
			assert.Contains(t, stdout, tt.stdout)
			assert.Contains(t, stderr, tt.stderr)
		})
	}
}

func TestLocksFlags(t *testing.T) {
	taken := locks.Result{Attempts: map[lockcheck.Style]locks.Answers{lockcheck.Lock: {Taken: 1}}}
	_, stdout, _, asked := execLocks(t.Context(), taken, nil,
		"--duration", "10m", "--members", "5", "--contenders", "9", "--locks", "2", "--seed", "42")
	assert.NotNil(t, asked.Log)
	asked.Log = nil
	assert.Equal(t, locks.Config{Duration: 10 * time.Minute, Members: 5, Contenders: 9, Locks: 2, Seed: 42}, asked)
	assert.Contains(t, stdout, "seed 42")

	_, _, _, first := execLocks(t.Context(), locks.Result{}, nil)
	_, _, _, second := execLocks(t.Context(), locks.Result{}, nil)
	assert.NotEqual(t, first.Seed, second.Seed, "each run has a seed of its own")

	status, _, stderr, _ := execLocks(t.Context(), locks.Result{}, nil, "--locks", "0")
	assert.Equal(t, exitFailure, status)
	assert.Contains(t, stderr, "--duration, --members, --contenders and --locks must be more than 0")
}

func TestLocksRefusesBadConfig(t *testing.T) {
	status, stdout, stderr := execRoot(t.Context(), short(t), "soak", "locks", "--members", "2", "--contenders", "-1")
	assert.Equal(t, exitFailure, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "the number of members must be 3 to 9")
	assert.Contains(t, stderr, "the number of contenders must be 1 to 200; it is -1")
}
