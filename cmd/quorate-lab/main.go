// Command quorate-lab shows what Quorate, a fault-tolerant client for etcd, does: it runs
// real etcd clusters on this machine, and breaks them.
//
// Its exit statuses are in the help: see newRootCommand.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

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

type upFlags struct {
	members int
	tls     bool
	json    bool
}

func newUpCommand() *cobra.Command {
	var flags upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a real etcd cluster until it is interrupted, and print its endpoints",
		Long: `up starts a cluster of real etcd processes on this machine and prints, when all
members serve, what a client needs: lines for a shell with etcdctl's variables, or
JSON. Nothing needs to be installed. The cluster runs until Ctrl-C or SIGTERM; then
it is removed with its data, and the exit status is 0.`,
		Example: `  # For etcdctl and Quorate's clientconfig in this shell:
  quorate-lab up > env & until [ -s env ]; do sleep 0.1; done; . ./env

  # Three members with TLS, for a program that reads JSON:
  quorate-lab up --members 3 --tls --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd) },
	}
	f := cmd.Flags()
	f.IntVar(&flags.members, "members", 1, "members of the cluster, 1 to 9")
	f.BoolVar(&flags.tls, "tls", false, "serve over TLS, with certificates made for this cluster")
	f.BoolVar(&flags.json, "json", false, "print JSON in place of lines for a shell")
	return cmd
}

func (f upFlags) run(cmd *cobra.Command) (err error) {
	if f.members < 1 || f.members > 9 {
		return cli.Usage(cmd, fmt.Errorf("--members must be 1 to 9; it is %d", f.members))
	}
	ctx := cmd.Context()
	cluster, err := lab.Start(ctx, lab.Config{Members: f.members, TLS: f.tls})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if err := f.print(cmd.OutOrStdout(), cluster); err != nil {
		return fmt.Errorf("print the endpoints: %w", err)
	}
	cmd.PrintErrln("The cluster serves; Ctrl-C ends it.")
	<-ctx.Done()
	return nil
}

func (f upFlags) print(w io.Writer, cluster *lab.Cluster) error {
	files := cluster.TLSFiles()
	if f.json {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(struct {
			Endpoints []string `json:"endpoints"`
			CA        string   `json:"ca,omitempty"`
			Cert      string   `json:"cert,omitempty"`
			Key       string   `json:"key,omitempty"`
		}{cluster.Endpoints(), files.CA, files.ClientCert, files.ClientKey})
	}
	var lines strings.Builder
	for _, v := range [][2]string{
		{"ENDPOINTS", strings.Join(cluster.Endpoints(), ",")},
		{"CACERT", files.CA},
		{"CERT", files.ClientCert},
		{"KEY", files.ClientKey},
	} {
		if v[1] != "" {
			fmt.Fprintf(&lines, "export ETCDCTL_%s='%s'\n", v[0], strings.ReplaceAll(v[1], "'", `'\''`))
		}
	}
	_, err := io.WriteString(w, lines.String())
	return err
}
