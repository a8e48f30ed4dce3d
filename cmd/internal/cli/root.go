// Package cli is what the programs of this module share: exit statuses, signals, errors of
// usage, versions, and the names of flags.
package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Root completes the root command of a program: errors are printed by [Execute], bad usage
// points to the help, and flags with the same meaning have one name. about is what the
// version says after that of the program, whole lines.
func Root(root *cobra.Command, about string) *cobra.Command {
	root.Version = readVersion(root.Name()) + about
	root.Args = cobra.NoArgs
	root.SilenceErrors, root.SilenceUsage = true, true
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.SetVersionTemplate("{{.Version}}")
	root.SetGlobalNormalizationFunc(normalizeFlag)
	root.SetFlagErrorFunc(Usage)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages ", "FlagUsagesWrapped 120 "))
	root.AddCommand(newVersionCommand(root.Version))
	return root
}

// normalizeFlag returns the name of a flag. --for is what --duration was called once.
func normalizeFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "for" {
		name = "duration"
	}
	return pflag.NormalizedName(name)
}
