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

// newSoakCommand returns the command "soak", which by itself is its subcommand "watches".
func newSoakCommand() *cobra.Command {
	cmd := newWatchesCommand()
	cmd.Use = "soak"
	cmd.Short = "Use a real etcd cluster under faults for long, and check the history"
	cmd.Long = "soak without a subcommand is \"soak watches\".\n\n" + cmd.Long
	cmd.AddCommand(newWatchesCommand(), newLocksCommand(), newLinearCommand(), newResolversCommand())
	return cmd
}

func newWatchesCommand() *cobra.Command {
	return newSoak("watches", "Watch a real etcd cluster under faults, and check every event that arrives",
		`writes to a real etcd cluster and watches it through Quorate in every way the API has, while
random faults happen to members and links and history is compacted. At the end every watch is
checked against the history of the store: its events were ordered, unique and complete.`,
		func(ctx context.Context, cfg robustness.Config) (robustness.Outcome, error) {
			return watches.Config{Config: cfg}.Run(ctx)
		})
}

func newLocksCommand() *cobra.Command {
	return newSoak("locks", "Contend for locks of a real etcd cluster under faults, and check who held them",
		`lets many clients of Quorate contend for a few mutexes and elections of a real etcd cluster,
and make writes that are guarded by them, while random faults happen to members and links,
and holders and waiters are paused past their leases. At the end every success and every
guarded write is checked against the history of the keys.`,
		func(ctx context.Context, cfg robustness.Config) (robustness.Outcome, error) {
			return locks.Config{Config: cfg}.Run(ctx)
		})
}

func newLinearCommand() *cobra.Command {
	var idempotent bool
	cmd := newSoak("linear", "Read and write a real etcd cluster under faults, and check that it is linearizable",
		`lets many callers read, write, delete and compare few keys of a real etcd cluster through Quorate,
while random faults happen to members and links. Half of the gets, puts and deletes share RPCs
(clientv3/batch), two thirds of the other gets use a cache (clientv3/cache), and some deadlines end
calls in flight. At the end porcupine looks for one order that explains every answer; a write that
failed must have no effect, and one of unknown outcome may have one, once, now or later.`,
		func(ctx context.Context, cfg robustness.Config) (robustness.Outcome, error) {
			return linear.Config{Config: cfg, Idempotent: idempotent}.Run(ctx)
		})
	cmd.Flags().BoolVar(&idempotent, "idempotent", false, "make writes idempotent (clientv3/idempotent)")
	return cmd
}

func newResolversCommand() *cobra.Command {
	return newSoak("resolvers", "Resolve names whose sources fail, and check that channels keep their backends",
		`has many gRPC channels follow backends that come and go, by DNS, etcd and Kubernetes at the
same time, while the DNS server, the members of a real etcd cluster and an API server in
memory fail, answer wrongly, and name nothing or a part for a moment. Some channels go idle,
and some are closed and opened again.

It checks that no channel is without backends once its builder knew some; that the removal of
most is not applied before MassRemovalDelay has passed; that each channel has the current list
soon after a change, or after its source is back; that calls do not fail; that a source that
is back is not overloaded; and that nothing is left when all is closed.`,
		func(ctx context.Context, cfg robustness.Config) (robustness.Outcome, error) {
			return resolvers.Config{Config: cfg}.Run(ctx)
		})
}

// newSoak returns the command of a soak. Its help begins with the name and what the soak does. The log goes to standard error.
func newSoak(name, short, does string, run func(context.Context, robustness.Config) (robustness.Outcome, error)) *cobra.Command {
	var cfg robustness.Config
	cmd := &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		Long: name + " " + does + `

The cluster runs on this machine. Nothing needs to be installed, and nothing is left behind.

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
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cfg.Duration <= 0 {
			return cli.Usage(cmd, errors.New("--duration must be more than 0"))
		}
		if !f.Changed("seed") {
			cfg.Seed = rand.Uint64()
		}
		cfg.Log = cmd.ErrOrStderr()
		outcome, err := run(cmd.Context(), cfg)
		if outcome.Checked() {
			if _, printErr := fmt.Fprint(cmd.OutOrStdout(), outcome); printErr != nil {
				return errors.Join(err, fmt.Errorf("print the result: %w", printErr))
			}
		}
		return conclude(cmd, outcome.Verdict, outcome.Interrupted, err)
	}
	return cmd
}
