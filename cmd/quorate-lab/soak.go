package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear"
	"github.com/quorate/quorate/lab/robustness/locks"
	"github.com/quorate/quorate/lab/robustness/resolvers"
	"github.com/quorate/quorate/lab/robustness/watches"
)

// soak is the configuration of a soak.
type soak interface {
	Common() *robustness.Config
	Numbers() []robustness.Number
	Run(ctx context.Context) (robustness.Outcome, error)
}

// soakRunner is soak.Run, or what tests put in its place.
type soakRunner func(soak, context.Context) (robustness.Outcome, error)

// newSoakCommand returns the command "soak", which does what its subcommand "watches"
// does.
func newSoakCommand(run soakRunner) *cobra.Command {
	cmd := newWatchesCommand(run)
	cmd.Use = "soak"
	cmd.Short = "Use a real etcd cluster under faults for long, and check the history"
	cmd.Long = `soak without a subcommand is "soak watches".

` + cmd.Long
	cmd.AddCommand(newWatchesCommand(run), newLocksCommand(run), newLinearCommand(run), newResolversCommand(run))
	return cmd
}

func newWatchesCommand(run soakRunner) *cobra.Command {
	return newSoak(run, &watches.Config{}, "watches", "Watch a real etcd cluster under faults, and check every event that arrives", `
writes to it, and watches it through Quorate in every way the API has, while members
are killed, stopped and cut off, leadership moves, history is compacted, and the
clients' links are cut, delayed and blackholed, in a random order.

The history of the store is recorded beside that, from the members themselves. At
the end every watch is checked against it: were its events ordered, unique, complete,
was no revision split, did it begin where it should, were progress notifications and
previous values right, did it end once and for a reason.`)
}

func newLocksCommand(run soakRunner) *cobra.Command {
	return newSoak(run, &locks.Config{}, "locks", "Contend for locks of a real etcd cluster under faults, and check who held them", `
lets many clients of Quorate contend for a few mutexes and elections, while members
are killed, stopped and cut off, leadership moves, and the clients' links are cut,
delayed and blackholed, in a random order. Whoever has a lock makes writes that are
guarded by it. Some are paused past their lease, while they wait, while they hold the
lock or with a write on its way, and go on as if nothing had happened; some abandon or
close their session, or their client, under the lock.

The history of the store is recorded beside that, from the members themselves. At
the end it is compared with what the clients received: did everyone who was given a
lock hold it at that moment, was every guarded write that was accepted one of the
holder, and none of a former one, did what was accepted happen and what was refused
not, was a lock that was given up gone, and does everyone get a lock once all is
well.`)
}

func newLinearCommand(run soakRunner) *cobra.Command {
	cfg := &linear.Config{}
	cmd := newSoak(run, cfg, "linear", "Read and write a real etcd cluster under faults, and check that it is linearizable", `
lets many callers read, write, delete and compare few keys through Quorate, half of
the gets, puts and deletes in RPCs that they share (clientv3/batch), while members are
killed, stopped and cut off, leadership moves, and the clients' links are cut, delayed
and blackholed, in a random order. Some callers have deadlines so short that their
calls end in flight.

What they are answered, with all revisions and versions, must be linearizable: one
order of everything explains every answer, as if the store were one that executes one
operation after the other. A write that failed must have no effect; one of unknown
outcome may have one, once, now or later. The history of the store is recorded beside
that, from the members themselves, and belongs to what porcupine checks at the end; a
check that takes too long counts as a violation. A violation is also shown as a page
for browsers.`)
	cmd.Flags().BoolVar(&cfg.Idempotent, "idempotent", false, "make writes idempotent (clientv3/idempotent)")
	cmd.Flags().StringVar(&cfg.PageDir, "pages", ".", "directory for the pages that show violations")
	return cmd
}

func newResolversCommand(run soakRunner) *cobra.Command {
	cfg := &resolvers.Config{}
	cmd := newSoak(run, cfg, "resolvers", "Resolve names whose sources fail, and check that channels keep their backends", `
has many gRPC channels follow backends that come and go, by DNS, etcd, Kubernetes and
static targets at the same time. The DNS server is silent, slow, restarted, refuses, and
answers with errors, with what was not asked for, or truncated; members of the etcd
cluster are killed, stopped and cut off, and history is compacted; the API server in
memory hangs, is restarted, breaks connections, forbids, and ends and expires watches;
all of them name nothing, or a part of the backends, for a moment; in a random order.
Some channels make calls, some go idle and are woken up, some are closed and opened again,
and now and then all are, in the middle of a fault too.

Checked is: no channel is without backends once its builder knew some; the disappearance
of most is not applied before MassRemovalDelay has passed; a second after a change, or after
its source is back, each channel has the current list (with DNS: a second after the next
lookup); calls do not fail; a source that is back is not overloaded; nothing is left when
all is closed. Times in which this process does not run do not count.`)
	cmd.Flags().StringSliceVar(&cfg.Resolvers, "resolver", resolvers.Resolvers(), "resolvers under test, "+strings.Join(resolvers.Resolvers(), ", "))
	return cmd
}

// newSoak returns the command of a soak, whose help goes on with what it does. The log goes to standard error.
func newSoak(run soakRunner, s soak, name, short, does string) *cobra.Command {
	cfg := s.Common()
	numbers := append([]robustness.Number{
		{Value: &cfg.Members, Name: "members", Default: robustness.DefaultMembers, Usage: "members of the cluster, 3 to 9"},
	}, s.Numbers()...)
	cmd := &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		Long: name + ` starts a cluster of real etcd processes on this machine. Nothing needs to be
installed, and nothing is left behind. It` + does + `

The exit status is 1 if a promise was broken; the result then shows the evidence.
Ctrl-C ends the faults: everything is healed, checked and removed. A second Ctrl-C
kills at once.`,
		Example: `  # A minute:
  quorate-lab soak ` + name + `

  # Longer, with the choices of an earlier run:
  quorate-lab soak ` + name + ` --duration 10m --seed 7`,
	}
	f := cmd.Flags()
	f.DurationVar(&cfg.Duration, "duration", robustness.DefaultDuration, "how long faults are injected")
	f.Uint64Var(&cfg.Seed, "seed", 0, "seed of all choices (default a new one; it is printed)")
	for _, n := range numbers {
		f.IntVar(n.Value, n.Name, n.Default, n.Usage)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := positive(cfg, numbers); err != nil {
			return cli.Usage(cmd, err)
		}
		if !f.Changed("seed") {
			cfg.Seed = rand.Uint64()
		}
		cfg.Log = cmd.ErrOrStderr()
		outcome, err := run(s, cmd.Context())
		if outcome.Checked() {
			if _, printErr := fmt.Fprint(cmd.OutOrStdout(), outcome); printErr != nil {
				return errors.Join(err, fmt.Errorf("print the result: %w", printErr))
			}
		}
		return conclude(cmd, outcome.Verdict, outcome.Interrupted, err)
	}
	return cmd
}

// positive refuses a duration or number of 0, which a Config would replace by its default.
func positive(cfg *robustness.Config, numbers []robustness.Number) error {
	if cfg.Duration == 0 {
		return errors.New("--duration must be more than 0")
	}
	for _, n := range numbers {
		if *n.Value == 0 {
			return fmt.Errorf("--%s must be more than 0", n.Name)
		}
	}
	return nil
}
