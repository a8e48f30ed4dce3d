package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/cli/clitest"
	"github.com/quorate/quorate/lab/linear"
	"github.com/quorate/quorate/lab/soak"
)

// execLinear runs the command "soak linear" over a runner that only answers.
func execLinear(
	ctx context.Context, result linear.Result, err error, args ...string,
) (status int, stdout, stderr string, asked linear.Config) {
	cmd := newSoakCommand(nil, nil, func(_ context.Context, cfg linear.Config) (linear.Result, error) {
		asked = cfg
		result.Seed = cfg.Seed
		return result, err
	}, nil)
	status, stdout, stderr = clitest.Exec(ctx, cmd, append([]string{"linear"}, args...)...)
	return status, stdout, stderr, asked
}

func TestLinearExitStatus(t *testing.T) {
	good := linear.Result{Outcome: soak.Outcome{Members: 3}, Checks: linear.Checks{Groups: 7}}
	bad := good
	bad.Verdict.Add(linear.Linearizable, "a lost write").Page = "group7.html"
	bad.Verdict.Count(linear.Linearizable, 1)
	early := good
	early.Interrupted = true
	checkExitStatus(t, func(ctx context.Context, r linear.Result, err error) (int, string, string) {
		status, stdout, stderr, _ := execLinear(ctx, r, err)
		return status, stdout, stderr
	}, soakOutcomes[linear.Result]{
		good: good, early: early, bad: bad,
		kept: "every promise was kept", shown: "linearizable: a lost write\n    see group7.html\n", counted: "linearizable  2\n", first: "2 violations, the first: a lost write",
	})
}

func TestLinearFlags(t *testing.T) {
	checked := linear.Result{Checks: linear.Checks{Groups: 1}}
	_, stdout, _, asked := execLinear(t.Context(), checked, nil,
		"--duration", "10m", "--members", "5", "--callers", "9", "--seed", "42", "--pages", "evidence")
	assert.NotNil(t, asked.Log)
	asked.Log = nil
	assert.Equal(t, linear.Config{Config: soak.Config{Duration: 10 * time.Minute, Members: 5, Seed: 42}, Callers: 9, PageDir: "evidence"}, asked)
	assert.Contains(t, stdout, "seed 42")

	_, _, _, first := execLinear(t.Context(), linear.Result{}, nil)
	_, _, _, second := execLinear(t.Context(), linear.Result{}, nil)
	assert.NotEqual(t, first.Seed, second.Seed, "each run has a seed of its own")

	status, _, stderr, _ := execLinear(t.Context(), linear.Result{}, nil, "--callers", "0")
	assert.Equal(t, cli.Failure, status)
	assert.Contains(t, stderr, "--duration, --members and --callers must be more than 0")
}

func TestLinearRefusesBadConfig(t *testing.T) {
	status, stdout, stderr := execRoot(t.Context(), short(t), "soak", "linear", "--members", "2", "--callers", "-1")
	assert.Equal(t, cli.Failure, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "the number of members must be 3 to 9")
	assert.Contains(t, stderr, "the number of callers must be 1 to 64; it is -1")
}
