package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/cli/clitest"
	"github.com/quorate/quorate/lab/names"
	"github.com/quorate/quorate/lab/soak"
)

// execResolvers runs the command "soak resolvers" over a runner that only answers.
func execResolvers(
	ctx context.Context, result names.Result, err error, args ...string,
) (status int, stdout, stderr string, asked names.Config) {
	cmd := newSoakCommand(nil, nil, nil, func(_ context.Context, cfg names.Config) (names.Result, error) {
		asked = cfg
		result.Seed = cfg.Seed
		return result, err
	})
	status, stdout, stderr = clitest.Exec(ctx, cmd, append([]string{"resolvers"}, args...)...)
	return status, stdout, stderr, asked
}

// resolversOutcome is a result that can be compared.
type resolversOutcome struct{ checked, interrupted, bad bool }

func (o resolversOutcome) result() (r names.Result) {
	r.Interrupted = o.interrupted
	if o.checked {
		r.Trials = []names.Trial{{Resolver: "dns"}}
	}
	if o.bad {
		r.Verdict.Add(names.Serving, "a channel without backends")
		r.Verdict.Count(names.Serving, 1)
	}
	return r
}

func TestResolversExitStatus(t *testing.T) {
	checkExitStatus(t, func(ctx context.Context, o resolversOutcome, err error) (int, string, string) {
		status, stdout, stderr, _ := execResolvers(ctx, o.result(), err)
		return status, stdout, stderr
	}, soakOutcomes[resolversOutcome]{
		good:  resolversOutcome{checked: true},
		early: resolversOutcome{checked: true, interrupted: true},
		bad:   resolversOutcome{checked: true, bad: true},
		kept:  "every promise was kept", shown: "serving: a channel without backends\n", counted: "serving       2\n", first: "2 violations, the first: a channel without backends",
	})
}

func TestResolversFlags(t *testing.T) {
	checked := resolversOutcome{checked: true}.result()
	_, stdout, _, asked := execResolvers(t.Context(), checked, nil,
		"--duration", "10m", "--members", "5", "--channels", "9", "--resolver", "dns,etcd", "--alone", "--seed", "42")
	assert.NotNil(t, asked.Log)
	asked.Log = nil
	assert.Equal(t, names.Config{Config: soak.Config{Duration: 10 * time.Minute, Members: 5, Seed: 42}, Channels: 9, Resolvers: []string{"dns", "etcd"}, Alone: true}, asked)
	assert.Contains(t, stdout, "seed 42")

	_, _, _, first := execResolvers(t.Context(), names.Result{}, nil)
	_, _, _, second := execResolvers(t.Context(), names.Result{}, nil)
	assert.NotEqual(t, first.Seed, second.Seed, "each run has a seed of its own")
	assert.Equal(t, names.Resolvers(), first.Resolvers)

	status, _, stderr, _ := execResolvers(t.Context(), names.Result{}, nil, "--channels", "0")
	assert.Equal(t, cli.Failure, status)
	assert.Contains(t, stderr, "--duration, --members and --channels must be more than 0")
}

func TestResolversRefusesBadConfig(t *testing.T) {
	status, stdout, stderr := execRoot(t.Context(), short(t), "soak", "resolvers", "--members", "2", "--channels", "-1", "--resolver", "dns,consul,dns")
	assert.Equal(t, cli.Failure, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "the number of members must be 3 to 9")
	assert.Contains(t, stderr, "the number of channels must be 1 to 1000; it is -1")
	assert.Contains(t, stderr, `unknown resolver "consul"`)
	assert.Contains(t, stderr, `the resolver "dns" is named twice`)
}
