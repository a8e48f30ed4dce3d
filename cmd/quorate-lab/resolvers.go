package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/resolvers"
)

func newResolversCommand(run soak[resolvers.Config]) *cobra.Command {
	var cfg resolvers.Config
	cmd := &cobra.Command{
		Use:   "resolvers",
		Short: "Resolve names whose sources fail, and check that channels keep their backends",
		Long: `resolvers has many gRPC channels follow backends that come and go, by DNS, etcd,
Kubernetes and static targets at the same time. The DNS server is silent, slow, restarted,
refuses, and answers with errors, with what was not asked for, or truncated; members of
the etcd cluster are killed, stopped and cut off, and history is compacted; the API server
in memory hangs, is restarted, breaks connections, forbids, and ends and expires watches;
all of them name nothing, or a part of the backends, for a moment; in a random order. Some
channels make calls, some nap and are woken up, some are closed and opened again, and
now and then all are, in the middle of a fault too.

Checked is: no channel is without backends once its builder knew some; the disappearance
of most is not believed before MassRemovalDelay; a second after a change, or after
its source is back, each channel has the current list (with DNS: a second after the next
lookup); calls do not fail; a source that is back is not overrun; nothing is left when
all is closed. Times in which this process does not run do not count.`,
		Example: `  # A minute:
  quorate-lab soak resolvers

  # Longer, of two resolvers, with the choices of an earlier run:
  quorate-lab soak resolvers --duration 10m --resolver dns,etcd --seed 7`,
	}
	addSoak(cmd, &cfg.Config, []count{{&cfg.Channels, "channels", resolvers.DefaultChannels, "channels over each resolver"}}, func(ctx context.Context) (robustness.Outcome, error) { return run(ctx, cfg) })
	cmd.Flags().StringSliceVar(&cfg.Resolvers, "resolver", resolvers.Resolvers(), "resolvers under test, "+strings.Join(resolvers.Resolvers(), ", "))
	return cmd
}
