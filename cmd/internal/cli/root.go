// Package cli is what the programs of this module share: exit statuses, signals, errors of
// usage, and versions.
package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// Root completes the root command of a program: errors are printed by [Execute], and bad usage
// points to the help. about follows the program's version in the output of "version": whole lines.
func Root(root *cobra.Command, about string) *cobra.Command {
	root.Version = readVersion(root.Name()) + about
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetVersionTemplate("{{.Version}}")
	root.SetFlagErrorFunc(Usage)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages ", "FlagUsagesWrapped 120 "))
	root.AddCommand(newVersionCommand(root.Version))
	return root
}
