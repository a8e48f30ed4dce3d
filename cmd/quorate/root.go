package main

import (
	"github.com/spf13/cobra"

	"github.com/quorate/quorate/lab/linear"
	"github.com/quorate/quorate/lab/locks"
	"github.com/quorate/quorate/lab/soak"
)

// newRootCommand returns the command "quorate" with its subcommands.
func newRootCommand(labCommand *cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "quorate",
		Short: "See etcd through Quorate, the fault-tolerant client",
		Long: `quorate shows what Quorate, a fault-tolerant drop-in client for etcd, does.

Start with "quorate lab": it runs a real etcd cluster on this machine, uses it
through Quorate while members are killed, stopped and cut off, and prints what
the callers saw. "quorate resolve" shows where a gRPC target leads.`,
		Example: `  quorate lab
  quorate lab --fault stop,partition --for 10s
  quorate resolve dns:///billing.shop.svc.cluster.local:8080 --health
  quorate version`,
		Args:          cobra.NoArgs,
		SilenceErrors: true, // main prints them
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(labCommand, newSoakCommand(soak.Run, locks.Run, linear.Run), newResolveCommand(), newVersionCommand())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{err: err, command: cmd.CommandPath()}
	})
	return root
}

// usageError is bad usage of a command; it points to the command's help.
type usageError struct {
	err     error
	command string
}

func (e usageError) Error() string {
	return e.err.Error() + "\nSee \"" + e.command + " --help\"."
}

func (e usageError) Unwrap() error { return e.err }
