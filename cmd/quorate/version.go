package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/version"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program and of the etcd server in it",
		Long: `version prints the version of this program, the revision it was built from if
that is known, the Go release that built it, and the version of the etcd server
that "quorate lab" runs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), readVersion())
			return err
		},
	}
}

// readVersion returns what "quorate version" and "quorate --version" print.
func readVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
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
	return fmt.Sprintf("quorate %s%s%s\n%s %s/%s\netcd server %s\n",
		own, revision, modified, runtime.Version(), runtime.GOOS, runtime.GOARCH, version.Version)
}
