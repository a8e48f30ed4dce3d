package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/watches"
)

func newWatchesCommand(run soak[watches.Config]) *cobra.Command {
	var cfg watches.Config
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
values true, did it end once and for a reason.`,
		Example: `  # A minute:
  quorate-lab soak

  # Longer, with the choices of an earlier run:
  quorate-lab soak --duration 10m --seed 7`,
	}
	addSoak(cmd, &cfg.Config, []count{
		{&cfg.Watches, "watches", watches.DefaultWatches, "watches at a time"},
		{&cfg.Writers, "writers", watches.DefaultWriters, "writers at a time"},
	}, func(ctx context.Context) (robustness.Outcome, error) { return run(ctx, cfg) })
	return cmd
}
