// Command quorate-lab shows what Quorate, a fault-tolerant client for etcd, does: it runs
// real etcd clusters on this machine, and breaks them.
//
// Its exit statuses are in the help: see newRootCommand.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/version"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness/faults"
)

func main() {
	lab.Main() // in a member of a cluster this does not return
	cli.SurviveClosedPipe()
	os.Exit(cli.Execute(cli.UntilSignal(), newRootCommand(faults.Run)))
}

func newRootCommand(run faults.Runner) *cobra.Command {
	root := cli.Root(&cobra.Command{
		Use:   "quorate-lab",
		Short: "See etcd under faults through Quorate, the fault-tolerant client",
		Long: `quorate-lab shows what Quorate, a fault-tolerant drop-in client for etcd, does.

Start with "quorate-lab faults": it runs a real etcd cluster on this machine, uses it
through Quorate while members are killed, stopped and cut off, and prints what
the callers saw.

The exit status is
  0         if all is well
  1         if a check failed: a promise was broken
  2         if the command could not do its work, or was not understood
  128 + n   if signal n ended it, such as 130 after Ctrl-C`,
		Example: `  quorate-lab faults
  quorate-lab faults --fault stop,partition --duration 10s
  quorate-lab soak --duration 10m
  quorate-lab up --members 3
  quorate-lab completion bash > /etc/bash_completion.d/quorate-lab`,
	}, "etcd server "+version.Version+"\n")
	root.AddCommand(newUpCommand(), newFaultsCommand(run), newSoakCommand())
	return root
}
