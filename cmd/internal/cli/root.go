// Package cli is what the programs of this module share: exit statuses, signals, errors of
// usage, and versions.
package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Root completes the root command of a program: errors are printed by [Execute], and bad usage
// points to the help. about follows the program's version in the output of "version": whole lines.
func Root(root *cobra.Command, about string) *cobra.Command {
	root.Version = readVersion(root.Name()) + about
	root.SuggestionsMinimumDistance = 2
	root.Args = unknownCommand
	root.SilenceErrors, root.SilenceUsage = true, true
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.SetVersionTemplate("{{.Version}}")
	root.SetFlagErrorFunc(Usage)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages ", "FlagUsagesWrapped 120 "))
	root.AddCommand(newVersionCommand(root.Version))
	return root
}

// unknownCommand refuses arguments of the root, and names the commands that were perhaps meant.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	return Usage(cmd, err)
}
