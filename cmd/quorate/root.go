package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorate/quorate/lab/linear"
	"github.com/quorate/quorate/lab/locks"
	"github.com/quorate/quorate/lab/names"
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
the callers saw. "quorate resolve" shows where a gRPC target leads.

The exit status is
  0         if all is well
  1         if a check failed: a promise was broken ("lab", "soak"), or a target has no
            endpoint, or one that does not serve ("resolve --once")
  2         if the command could not do its work, or was not understood
  128 + n   if signal n ended it, such as 130 after Ctrl-C`,
		Example: `  quorate lab
  quorate lab --fault stop,partition --duration 10s
  quorate resolve dns:///billing.shop.svc.cluster.local:8080 --health
  quorate completion bash > /etc/bash_completion.d/quorate`,
		Version:       readVersion(),
		Args:          cobra.NoArgs,
		SilenceErrors: true, // main prints them
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}")
	root.SetGlobalNormalizationFunc(normalizeFlag)
	root.AddCommand(labCommand, newSoakCommand(soak.Run, locks.Run, linear.Run, names.Run), newResolveCommand(), newVersionCommand())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{err: err, command: cmd.CommandPath()}
	})
	return root
}

// normalizeFlag returns the name of a flag. --for is what --duration was called once.
func normalizeFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "for" {
		name = "duration"
	}
	return pflag.NormalizedName(name)
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
