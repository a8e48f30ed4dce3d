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
writes to it and watches it through Quorate in every way the API has, while random faults
happen to members and links and history is compacted. At the end every watch is checked
against the history of the store: its events were ordered, unique and complete.`)
}

func newLocksCommand(run soakRunner) *cobra.Command {
	return newSoak(run, &locks.Config{}, "locks", "Contend for locks of a real etcd cluster under faults, and check who held them", `
lets many clients of Quorate contend for a few mutexes and elections, and make writes
that are guarded by them, while random faults happen to members and links, and holders
and waiters are paused past their leases. At the end every success and every guarded
write is checked against the history of the keys.`)
}

func newLinearCommand(run soakRunner) *cobra.Command {
	cfg := &linear.Config{}
	cmd := newSoak(run, cfg, "linear", "Read and write a real etcd cluster under faults, and check that it is linearizable", `
lets many callers read, write, delete and compare few keys through Quorate, half of
the gets, puts and deletes in RPCs that they share (clientv3/batch), while random faults
happen to members and links. Some have deadlines so short that their calls end in flight.
At the end porcupine looks for one order that explains every answer; a write that failed
must have no effect, and one of unknown outcome may have one, once, now or later. A check
that takes too long counts as a violation. A violation is also shown as a page for browsers.`)
	cmd.Flags().BoolVar(&cfg.Idempotent, "idempotent", false, "make writes idempotent (clientv3/idempotent)")
	cmd.Flags().StringVar(&cfg.PageDir, "pages", ".", "directory for the pages that show violations")
	return cmd
}

func newResolversCommand(run soakRunner) *cobra.Command {
	cfg := &resolvers.Config{}
	cmd := newSoak(run, cfg, "resolvers", "Resolve names whose sources fail, and check that channels keep their backends", `
has many gRPC channels follow backends that come and go, by DNS, etcd and Kubernetes
at the same time, while the DNS server, the members of etcd and an API
server in memory fail, answer wrongly, and name nothing or a part for a moment. Some
channels go idle, and some are closed and opened again.

Checked is: no channel is without backends once its builder knew some; the disappearance
of most is not applied before MassRemovalDelay has passed; each channel has the current
list soon after a change, or after its source is back; calls do not fail; a source that is
back is not overloaded; nothing is left when all is closed.`)
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
