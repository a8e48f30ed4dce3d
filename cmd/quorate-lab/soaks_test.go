package main

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/cli/clitest"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
	"github.com/quorate/quorate/lab/robustness/locks"
	"github.com/quorate/quorate/lab/robustness/resolvers"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
	"github.com/quorate/quorate/lab/robustness/watches"
)

// soakTest is what a soak is held to, over one that only answers. C is its configuration.
type soakTest[C any] struct {
	name    string
	command func(run soak[C]) *cobra.Command
	// promise is one that the soak checks.
	promise robustness.Promise
	// flags are all flags but --duration 10m, --members 5 and --seed 42, config is what they come to,
	// without the log, and base the part that all configurations have.
	flags  []string
	config C
	base   func(*C) *robustness.Config
	// zero must not be 0; refused is the beginning of the error.
	zero, refused string
	// wrong are flags that the soak itself refuses, and why.
	wrong, because []string
}

func (s soakTest[C]) exec(ctx context.Context, outcome robustness.Outcome, err error, args ...string) (status int, stdout, stderr string, asked C) {
	root := &cobra.Command{Use: "soak"}
	root.AddCommand(s.command(func(_ context.Context, cfg C) (robustness.Outcome, error) {
		asked = cfg
		return outcome, err
	}))
	status, stdout, stderr = clitest.Exec(ctx, root, append([]string{s.name}, args...)...)
	return status, stdout, stderr, asked
}

// check holds the soak to the exit statuses and flags that all have, and to its own.
func (s soakTest[C]) check(t *testing.T) {
	t.Run(s.name, func(t *testing.T) {
		t.Run("exit status", s.exitStatus)
		t.Run("flags", s.checkFlags)
		t.Run("bad configuration", func(t *testing.T) {
			status, stdout, stderr := execRoot(t.Context(), short(t), append([]string{"soak", s.name, "--members", "2"}, s.wrong...)...)
			assert.Equal(t, cli.Failure, status)
			assert.Empty(t, stdout)
			for _, want := range append(s.because, "the number of members must be 3 to 9") {
				assert.Contains(t, stderr, want)
			}
		})
	})
}

func (s soakTest[C]) exitStatus(t *testing.T) {
	good, early, bad := checked, checked, checked
	early.Interrupted = true
	v := bad.Verdict.Add(s.promise, "it is broken")
	v.Evidence, v.Page = []string{"response 3"}, "group7.html"
	bad.Verdict.Count(s.promise, 1)
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
		{"violations", t.Context(), bad, nil, cli.Negative, string(s.promise) + ": it is broken\n    response 3\n    see group7.html\n", "2 violations, the first: it is broken"},
		{"failure", t.Context(), robustness.Outcome{}, errors.New("no disk"), cli.Failure, "", "soak: no disk\n"},
		{"interrupted", interrupted, early, nil, 130, "every promise was kept", "the run was ended early: interrupt"},
		{"violations and interrupted", interrupted, bad, nil, cli.Negative, "2 violations\n", "2 violations"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, stdout, stderr, _ := s.exec(tt.ctx, tt.outcome, tt.err)
			assert.Equal(t, tt.status, status)
			assert.Contains(t, stdout, tt.stdout)
			assert.Contains(t, stderr, tt.stderr)
		})
	}
}

func (s soakTest[C]) checkFlags(t *testing.T) {
	result := checked
	result.Seed = 42
	_, stdout, _, asked := s.exec(t.Context(), result, nil, append([]string{"--duration", "10m", "--members", "5", "--seed", "42"}, s.flags...)...)
	assert.NotNil(t, s.base(&asked).Log)
	s.base(&asked).Log = nil
	*s.base(&s.config) = robustness.Config{Duration: 10 * time.Minute, Members: 5, Seed: 42}
	assert.Equal(t, s.config, asked)
	assert.Contains(t, stdout, "seed 42")

	_, _, _, first := s.exec(t.Context(), result, nil)
	_, _, _, second := s.exec(t.Context(), result, nil)
	assert.NotEqual(t, s.base(&first).Seed, s.base(&second).Seed, "each run has a seed of its own")

	status, _, stderr, _ := s.exec(t.Context(), result, nil, s.zero, "0")
	assert.Equal(t, cli.Failure, status)
	assert.Contains(t, stderr, s.refused+" must be more than 0")
}

// checked is the outcome of a run that checked something.
var checked = robustness.Outcome{Duration: time.Minute}

func TestSoaks(t *testing.T) {
	soakTest[watches.Config]{
		name: "watches", promise: watchcheck.Reliable,
		command: newWatchesCommand,
		flags:   []string{"--watches", "9", "--writers", "2"}, config: watches.Config{Watches: 9, Writers: 2},
		base: func(c *watches.Config) *robustness.Config { return &c.Config },
		zero: "--members", refused: "--duration, --members, --watches and --writers",
		wrong: []string{"--watches", "-1"}, because: []string{"the number of watches must be 1 to 1000; it is -1"},
	}.check(t)
	soakTest[locks.Config]{
		name: "locks", promise: lockcheck.Guarded,
		command: newLocksCommand,
		flags:   []string{"--contenders", "9", "--locks", "2"}, config: locks.Config{Contenders: 9, Locks: 2},
		base: func(c *locks.Config) *robustness.Config { return &c.Config },
		zero: "--locks", refused: "--duration, --members, --contenders and --locks",
		wrong: []string{"--contenders", "-1"}, because: []string{"the number of contenders must be 1 to 200; it is -1"},
	}.check(t)
	soakTest[linear.Config]{
		name: "linear", promise: linear.Linearizable,
		command: newLinearCommand,
		flags:   []string{"--callers", "9", "--pages", "evidence"}, config: linear.Config{Callers: 9, PageDir: "evidence"},
		base: func(c *linear.Config) *robustness.Config { return &c.Config },
		zero: "--callers", refused: "--duration, --members and --callers",
		wrong: []string{"--callers", "-1"}, because: []string{"the number of callers must be 1 to 64; it is -1"},
	}.check(t)
	soakTest[resolvers.Config]{
		name: "resolvers", promise: resolvers.Serving,
		command: newResolversCommand,
		flags:   []string{"--channels", "9", "--resolver", "dns,etcd"}, config: resolvers.Config{Channels: 9, Resolvers: []string{"dns", "etcd"}},
		base: func(c *resolvers.Config) *robustness.Config { return &c.Config },
		zero: "--channels", refused: "--duration, --members and --channels",
		wrong:   []string{"--channels", "-1", "--resolver", "dns,consul,dns"},
		because: []string{"the number of channels must be 1 to 1000; it is -1", `unknown resolver "consul"`, `the resolver "dns" is named twice`},
	}.check(t)
}

// TestSoakIsWatches holds "soak" and "soak watches" to be the same, and "soak resolvers" to all
// resolvers by default.
func TestSoakIsWatches(t *testing.T) {
	var asked []watches.Config
	var defaults []string
	cmd := func() *cobra.Command {
		return newSoakCommand(func(_ context.Context, cfg watches.Config) (robustness.Outcome, error) {
			cfg.Log = nil
			asked = append(asked, cfg)
			return robustness.Outcome{}, nil
		}, nil, nil, func(_ context.Context, cfg resolvers.Config) (robustness.Outcome, error) {
			defaults = cfg.Resolvers
			return robustness.Outcome{}, nil
		})
	}
	clitest.Exec(t.Context(), cmd(), "--seed", "42", "--watches", "9")
	clitest.Exec(t.Context(), cmd(), "watches", "--seed", "42", "--watches", "9")
	if assert.Len(t, asked, 2) {
		assert.Equal(t, asked[0], asked[1])
	}
	clitest.Exec(t.Context(), cmd(), "resolvers")
	assert.Equal(t, resolvers.Resolvers(), defaults)
	status, _, stderr := clitest.Exec(t.Context(), cmd(), "leases")
	assert.Equal(t, cli.Failure, status)
	assert.Contains(t, stderr, `unknown command "leases" for "soak"`)
}
