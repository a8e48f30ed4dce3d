package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear"
	"github.com/quorate/quorate/lab/robustness/locks"
	"github.com/quorate/quorate/lab/robustness/resolvers"
	"github.com/quorate/quorate/lab/robustness/watches"
)

// newSoakCommand returns the command "soak", which does what its subcommand "watches"
// does.
func newSoakCommand(
	runWatches soak[watches.Config], runLocks soak[locks.Config],
	runLinear soak[linear.Config], runResolvers soak[resolvers.Config],
) *cobra.Command {
	cmd := newWatchesCommand(runWatches)
	cmd.Use = "soak"
	cmd.Short = "Use a real etcd cluster under faults for long, and check what comes of it"
	cmd.Long = `soak without a subcommand is "soak watches".

` + cmd.Long
	cmd.Example += `

  # Locks in place of watches:
  quorate-lab soak locks --duration 10m

  # Reads and writes:
  quorate-lab soak linear --duration 10m

  # The gRPC resolvers:
  quorate-lab soak resolvers --duration 10m`
	cmd.AddCommand(newWatchesCommand(runWatches), newLocksCommand(runLocks), newLinearCommand(runLinear), newResolversCommand(runResolvers))
	return cmd
}

// soak runs a soak with its configuration.
type soak[C any] func(context.Context, C) (robustness.Outcome, error)

// count is a flag for a number that must be above 0.
type count struct {
	n        *int
	flag     string
	standard int
	usage    string
}

const soakEnds = `

The exit status is 1 if a promise was broken; the result then shows the evidence.
It is 2 if the run could not go on, 128 and the number of the signal if one ended
the run early (130 for Ctrl-C), and 0 otherwise.

Ctrl-C ends the faults: everything is healed, checked and removed. A second Ctrl-C
kills at once.`

// addSoak completes the command of a soak: the flags that all soaks have, its own counts, the end of its help, and how
// it runs. The log goes to standard error.
func addSoak(cmd *cobra.Command, cfg *robustness.Config, counts []count, run func(context.Context) (robustness.Outcome, error)) {
	cmd.Long += soakEnds
	f := cmd.Flags()
	f.DurationVar(&cfg.Duration, "duration", robustness.DefaultDuration, "how long faults are injected")
	f.Uint64Var(&cfg.Seed, "seed", 0, "seed of all choices (default a new one; it is printed)")
	counts = append([]count{{&cfg.Members, "members", robustness.DefaultMembers, "members of the cluster, 3 to 9"}}, counts...)
	for _, c := range counts {
		f.IntVar(c.n, c.flag, c.standard, c.usage)
	}
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := positive(cmd, cfg, counts); err != nil {
			return err
		}
		if !f.Changed("seed") {
			cfg.Seed = rand.Uint64()
		}
		cfg.Log = cmd.ErrOrStderr()
		outcome, err := run(cmd.Context())
		return conclude(cmd, outcome, err)
	}
}

// positive refuses a duration or count of 0, which a Config would replace by its default.
func positive(cmd *cobra.Command, cfg *robustness.Config, counts []count) error {
	wrong := cfg.Duration == 0
	flags := "--duration"
	for i, c := range counts {
		wrong = wrong || *c.n == 0
		if i < len(counts)-1 {
			flags += ", --" + c.flag
		} else {
			flags += " and --" + c.flag
		}
	}
	if wrong {
		return cli.Usage(cmd, errors.New(flags+" must be more than 0"))
	}
	return nil
}

// conclude prints the outcome, and returns the error that the command ends with; err is
// that of the run.
func conclude(cmd *cobra.Command, outcome robustness.Outcome, err error) error {
	if outcome.Checked() {
		if _, printErr := fmt.Fprint(cmd.OutOrStdout(), outcome); printErr != nil {
			return errors.Join(err, fmt.Errorf("print the result: %w", printErr))
		}
	}
	if verdict := outcome.Verdict; !verdict.OK() {
		return errors.Join(violationError{verdict.Total(), verdict.Violations[0].Message}, err)
	}
	if err == nil && outcome.Interrupted {
		return endedEarly(cmd.Context())
	}
	return err
}
