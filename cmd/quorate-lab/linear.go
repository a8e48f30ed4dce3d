package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/lab/linear"
)

// linearRunner takes and checks the histories of a run; [linear.Run] is the real one.
type linearRunner func(context.Context, linear.Config) (linear.Result, error)

// linearFlags are the flags of "quorate-lab soak linear".
type linearFlags struct {
	soakFlags
	callers int
	pages   string
}

func newLinearCommand(run linearRunner) *cobra.Command {
	var flags linearFlags
	cmd := &cobra.Command{
		Use:   "linear",
		Short: "Read and write a real etcd cluster under faults, and check that it is linearizable",
		Long: `linear starts a cluster of real etcd processes on this machine and lets many callers
read, write, delete and compare few keys through Quorate, while members are killed,
stopped and cut off, leadership moves, and the clients' links are cut, delayed and
blackholed, in a random order. Some callers have so little patience that their calls
end on their way.

What they are answered, with all revisions and versions, must be linearizable: one
order of everything explains every answer, as if the store were one that executes one
operation after the other. A write that failed must have no effect; one of unknown
outcome may have one, once, now or later. Keys live for a few seconds, and what was
asked of them is checked by porcupine while the run goes on. A check that takes too
long counts as a violation. In the end no revision of the store may be left that
belongs to no write.

The exit status is 1 if a promise was broken; the result then shows the answer that
fits nowhere, and names a page for browsers that shows the history. It is 2 if the run
could not go on, 128 and the number of the signal if one ended the run early (130 for
Ctrl-C), and 0 otherwise.

Ctrl-C ends the faults: the cluster is healed, what was done is checked, and the
cluster is removed. A second Ctrl-C kills at once.`,
		Example: `  # A minute:
  quorate-lab soak linear

  # Longer, with the choices of an earlier run:
  quorate-lab soak linear --duration 10m --seed 7`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd, run) },
	}
	f := cmd.Flags()
	flags.add(f)
	f.IntVar(&flags.callers, "callers", linear.DefaultCallers, "operations that are under way at a time")
	f.StringVar(&flags.pages, "pages", ".", "directory for the pages that show violations")
	return cmd
}

// run takes and checks the histories, and prints the result; the log goes to standard
// error.
func (f linearFlags) run(cmd *cobra.Command, run linearRunner) error {
	if err := f.complete(cmd, "--duration, --members and --callers", f.callers); err != nil {
		return err
	}
	result, err := run(cmd.Context(), linear.Config{
		Duration: f.duration, Members: f.members, Callers: f.callers, Seed: f.seed, PageDir: f.pages, Log: cmd.ErrOrStderr(),
	})
	out := soakResult{text: result, checked: result.Checked(), interrupted: result.Interrupted}
	if !result.Verdict.OK() {
		out.violations = violationError{result.Verdict.Total(), result.Verdict.Violations[0].Message}
	}
	return out.conclude(cmd, err)
}
