package main

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/linear"
)

// execLinear runs the command "soak linear" over a runner that only answers.
func execLinear(
	ctx context.Context, result linear.Result, err error, args ...string,
) (status int, stdout, stderr string, asked linear.Config) {
	cmd := newSoakCommand(nil, nil, func(_ context.Context, cfg linear.Config) (linear.Result, error) {
		asked = cfg
		result.Seed = cfg.Seed
		return result, err
	})
	var out, errOut bytes.Buffer
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"linear"}, args...))
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	status = execute(ctx, cmd)
	return status, out.String(), errOut.String(), asked
}

func TestLinearExitStatus(t *testing.T) {
	good := linear.Result{Members: 3, Checks: linear.Checks{Groups: 7}}
	bad := good
	bad.Verdict.Counts = map[linear.Promise]int{linear.Linearizable: 2}
	bad.Verdict.Violations = []linear.Violation{{Promise: linear.Linearizable, Message: "a lost write", Page: "group7.html"}}
	early := good
	early.Interrupted = true
	interrupted, interrupt := context.WithCancelCause(t.Context())
	interrupt(signalError{syscall.SIGINT})

	tests := []struct {
		name   string
		ctx    context.Context
		result linear.Result
		err    error
		status int
		stdout string
		stderr string
	}{
		{"good", t.Context(), good, nil, exitOK, "every answer is linearizable", ""},
		{"violations", t.Context(), bad, nil, exitViolation, "linearizable: a lost write\n    see group7.html\n", "2 violations, the first: a lost write"},
		{"failure", t.Context(), linear.Result{}, errors.New("no disk"), exitFailure, "", "quorate: no disk\n"},
		{"interrupted", interrupted, early, nil, 130, "every answer is linearizable", "the run was ended early: interrupt"},
		{"violations and interrupted", interrupted, bad, nil, exitViolation, "linearizable  2\n", "2 violations"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, stdout, stderr, _ := execLinear(tt.ctx, tt.result, tt.err)
			assert.Equal(t, tt.status, status)
			assert.Contains(t, stdout, tt.stdout)
			assert.Contains(t, stderr, tt.stderr)
		})
	}
}

func TestLinearFlags(t *testing.T) {
	checked := linear.Result{Checks: linear.Checks{Groups: 1}}
	for _, name := range []string{"--for", "--duration"} {
		_, stdout, _, asked := execLinear(t.Context(), checked, nil,
			name, "10m", "--members", "5", "--callers", "9", "--seed", "42", "--pages", "evidence")
		assert.NotNil(t, asked.Log)
		asked.Log = nil
		assert.Equal(t, linear.Config{Duration: 10 * time.Minute, Members: 5, Callers: 9, Seed: 42, PageDir: "evidence"}, asked)
		assert.Contains(t, stdout, "seed 42")
	}

	_, _, _, first := execLinear(t.Context(), linear.Result{}, nil)
	_, _, _, second := execLinear(t.Context(), linear.Result{}, nil)
	assert.NotEqual(t, first.Seed, second.Seed, "each run has a seed of its own")

	status, _, stderr, _ := execLinear(t.Context(), linear.Result{}, nil, "--callers", "0")
	assert.Equal(t, exitFailure, status)
	assert.Contains(t, stderr, "--for, --members and --callers must be more than 0")
}

func TestLinearRefusesBadConfig(t *testing.T) {
	status, stdout, stderr := execRoot(t.Context(), short(t), "soak", "linear", "--members", "2", "--callers", "-1")
	assert.Equal(t, exitFailure, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "the number of members must be 3 to 9")
	assert.Contains(t, stderr, "the number of callers must be 1 to 64; it is -1")
}
