package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear"
)

func newLinearCommand(run soak[linear.Config]) *cobra.Command {
	var cfg linear.Config
	cmd := &cobra.Command{
		Use:   "linear",
		Short: "Read and write a real etcd cluster under faults, and check that it is linearizable",
		Long: `linear starts a cluster of real etcd processes on this machine and lets many callers
read, write, delete and compare few keys through Quorate, half of the gets, puts and
deletes in RPCs that they share (clientv3/batch), while members are killed,
stopped and cut off, leadership moves, and the clients' links are cut, delayed and
blackholed, in a random order. Some callers have deadlines so short that their calls
end in flight.

What they are answered, with all revisions and versions, must be linearizable: one
order of everything explains every answer, as if the store were one that executes one
operation after the other. A write that failed must have no effect; one of unknown
outcome may have one, once, now or later. Keys live for a few seconds, and what was
asked of them is checked by porcupine while the run goes on. A check that takes too
long counts as a violation. In the end no revision of the store may be left that
belongs to no write. A violation is also shown as a page for browsers.`,
		Example: `  # A minute:
  quorate-lab soak linear

  # Longer, with the choices of an earlier run:
  quorate-lab soak linear --duration 10m --seed 7`,
	}
	addSoak(cmd, &cfg.Config, []count{{&cfg.Callers, "callers", linear.DefaultCallers, "operations that are under way at a time"}}, func(ctx context.Context) (robustness.Outcome, error) { return run(ctx, cfg) })
	cmd.Flags().BoolVar(&cfg.Idempotent, "idempotent", false, "make writes idempotent (clientv3/idempotent); revisions are then not accounted for")
	cmd.Flags().StringVar(&cfg.PageDir, "pages", ".", "directory for the pages that show violations")
	return cmd
}
