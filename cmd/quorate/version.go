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
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{}
			}
			return printVersion(cmd.OutOrStdout(), info)
		},
	}
}

func printVersion(w io.Writer, info *debug.BuildInfo) error {
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
	_, err := fmt.Fprintf(w, "quorate %s%s%s\n%s %s/%s\netcd server %s\n",
		own, revision, modified, runtime.Version(), runtime.GOOS, runtime.GOARCH, version.Version)
	return err
}
