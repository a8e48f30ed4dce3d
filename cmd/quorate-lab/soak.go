package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/lab/soak"
)

// soakRunner takes and checks the history of a run; [soak.Run] is the real one.
type soakRunner func(context.Context, soak.Config) (soak.Result, error)

// soakFlags are the flags that every soak has.
type soakFlags struct {
	duration time.Duration
	members  int
	seed     uint64
}

// add declares the flags with their defaults, which all soaks share.
func (f *soakFlags) add(flags *pflag.FlagSet) {
	flags.DurationVar(&f.duration, "duration", soak.DefaultDuration, "how long faults are injected")
	flags.IntVar(&f.members, "members", soak.DefaultMembers, "members of the cluster, 3 to 9")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of all choices (default a new one; it is printed)")
}

// complete chooses a seed if none was given. Its error names the flags that must not be
// 0, of which counts are those of the one soak: to a Config 0 means its default, but who
// writes it means none.
func (f *soakFlags) complete(cmd *cobra.Command, names string, counts ...int) error {
	if f.duration == 0 || f.members == 0 || slices.Contains(counts, 0) {
		return cli.Usage(cmd, errors.New(names+" must be more than 0"))
	}
	if !cmd.Flags().Changed("seed") {
		f.seed = rand.Uint64()
	}
	return nil
}

// watchesFlags are the flags of "quorate-lab soak watches".
type watchesFlags struct {
	soakFlags
	watches int
	writers int
}

// newSoakCommand returns the command "soak", which does what its subcommand "watches"
// does.
func newSoakCommand(watches soakRunner, locks locksRunner, linear linearRunner, resolvers resolversRunner) *cobra.Command {
	cmd := newWatchesCommand(watches)
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
	cmd.AddCommand(newWatchesCommand(watches), newLocksCommand(locks), newLinearCommand(linear), newResolversCommand(resolvers))
	return cmd
}

func newWatchesCommand(run soakRunner) *cobra.Command {
	var flags watchesFlags
	cmd := &cobra.Command{
		Use:   "watches",
		Short: "Watch a real etcd cluster under faults, and check every event that arrives",
		Long: `watches starts a cluster of real etcd processes on this machine, writes to it, and
watches it through Quorate in every way the API has, while members are killed,
stopped and cut off, leadership moves, history is compacted, and the clients'
links are cut, delayed and blackholed, in a random order. Nothing needs to be
installed, and nothing is left behind.

The history of the store is recorded beside that, from the members themselves. At
the end every watch is held against it: were its events ordered, unique, complete,
was no revision split, did it begin where it should, were bookmarks and previous
values true, did it end once and for a reason.

The exit status is 1 if a promise was broken; the result then shows the responses
that prove it. It is 2 if the run could not go on, 128 and the number of the signal
if one ended the run early (130 for Ctrl-C), and 0 otherwise.

Ctrl-C ends the faults: the cluster is healed, the watches are checked, and the
cluster is removed. A second Ctrl-C kills at once.`,
		Example: `  # A minute:
  quorate-lab soak

  # Longer, with the choices of an earlier run:
  quorate-lab soak --duration 10m --seed 7`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd, run) },
	}
	f := cmd.Flags()
	flags.add(f)
	f.IntVar(&flags.watches, "watches", soak.DefaultWatches, "watches at a time")
	f.IntVar(&flags.writers, "writers", soak.DefaultWriters, "writers at a time")
	return cmd
}

// run takes and checks a history, and prints the result; the log goes to standard
// error.
func (f watchesFlags) run(cmd *cobra.Command, run soakRunner) error {
	if err := f.complete(cmd, "--duration, --members, --watches and --writers", f.watches, f.writers); err != nil {
		return err
	}
	result, err := run(cmd.Context(), soak.Config{
		Duration: f.duration, Members: f.members, Watches: f.watches, Writers: f.writers, Seed: f.seed, Log: cmd.ErrOrStderr(),
	})
	out := soakResult{text: result, checked: result.Verdict.Watches > 0, interrupted: result.Interrupted}
	if !result.Verdict.OK() {
		out.violations = violationError{result.Verdict.Total(), result.Verdict.Violations[0].Message}
	}
	return out.conclude(cmd, err)
}

// soakResult is what a run of "soak" came to, whichever it was.
type soakResult struct {
	text fmt.Stringer
	// checked tells that there is a text to print.
	checked, interrupted bool
	// violations has a total of 0 if every promise was kept.
	violations violationError
}

// conclude prints the result, and returns the error that the command ends with; err is
// that of the run.
func (r soakResult) conclude(cmd *cobra.Command, err error) error {
	if r.checked {
		if _, printErr := fmt.Fprint(cmd.OutOrStdout(), r.text); printErr != nil {
			return errors.Join(err, fmt.Errorf("print the result: %w", printErr))
		}
	}
	if r.violations.total > 0 {
		return errors.Join(r.violations, err)
	}
	if err == nil && r.interrupted {
		return fmt.Errorf("the run was ended early: %w", context.Cause(cmd.Context()))
	}
	return err
}
