package cli

import (
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
		Long: `version prints the version of this program, the revision it was built from if
that is known, and the Go release that built it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
}

// readVersion returns what a program says of its own version.
func readVersion(name string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionOf(name, info)
}

func versionOf(name string, info *debug.BuildInfo) string {
	own := info.Main.Version
	if own == "" {
		own = "(devel)"
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = ", revision " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", with local changes"
		}
	}
	return fmt.Sprintf("%s %s%s%s\n%s %s/%s\n", name, own, revision, modified, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
