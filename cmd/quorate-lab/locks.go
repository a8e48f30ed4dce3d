package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/locks"
)

func newLocksCommand(run soak[locks.Config]) *cobra.Command {
	var cfg locks.Config
	cmd := &cobra.Command{
		Use:   "locks",
		Short: "Contend for locks of a real etcd cluster under faults, and check who held them",
		Long: `locks starts a cluster of real etcd processes on this machine and lets many clients
of Quorate contend for a few mutexes and elections, while members are killed,
stopped and cut off, leadership moves, and the clients' links are cut, delayed and
blackholed, in a random order. Whoever has a lock makes writes that are guarded by
it. Some are paused past their lease, while they wait, while they hold the lock or
with a write on its way, and go on as if nothing had happened; some abandon or close
their session, or their client, under the lock.

The history of the store is recorded beside that, from the members themselves. At
the end it is held against what the clients were told: did everyone who was given a
lock hold it at that moment, was every guarded write that was accepted one of the
holder, and none of a former one, did what was accepted happen and what was refused
not, was a lock that was given up gone, and does everyone get a lock once all is
well.`,
		Example: `  # A minute:
  quorate-lab soak locks

  # Longer, with the choices of an earlier run:
  quorate-lab soak locks --duration 10m --seed 7`,
	}
	addSoak(cmd, &cfg.Config, []count{
		{&cfg.Contenders, "contenders", locks.DefaultContenders, "clients that contend for the locks"},
		{&cfg.Locks, "locks", locks.DefaultLocks, "mutexes and elections, by turns"},
	}, func(ctx context.Context) (robustness.Outcome, error) { return run(ctx, cfg) })
	return cmd
}
