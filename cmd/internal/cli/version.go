package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand(text string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long: `version prints the version of this program, which names the revision if it was built
from one, and the Go release that built it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
}

// readVersion returns what a program says of its own version.
func readVersion(name string) string {
	info, _ := debug.ReadBuildInfo() // nil without one
	return versionOf(name, cmp.Or(info, &debug.BuildInfo{}))
}

func versionOf(name string, info *debug.BuildInfo) string {
	return fmt.Sprintf("%s %s\n%s %s/%s\n", name, cmp.Or(info.Main.Version, "(devel)"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
