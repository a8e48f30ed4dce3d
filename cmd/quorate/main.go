// Command quorate is the program for operators of etcd, and of services that use gRPC.
//
// Its exit statuses are in the help: see newRootCommand.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
)

func main() {
	cli.SurviveClosedPipe()
	os.Exit(cli.Execute(cli.UntilSignal(), newRootCommand()))
}

func newRootCommand() *cobra.Command {
	root := cli.Root(&cobra.Command{
		Use:   "quorate",
		Short: "See etcd and gRPC targets as a client does",
		Long: `quorate shows etcd clusters and gRPC targets as Quorate, a fault-tolerant client,
sees them. "quorate doctor" says what is wrong with a cluster, "quorate top" shows it live,
"quorate explain" says what an error means, "quorate verify" checks that a cluster keeps
its promises, and "quorate resolve" shows where a gRPC target leads.

"quorate-lab", a program of its own, runs etcd clusters on this machine and breaks them.

The exit status is
  0         if all is well
  1         if a check failed: something is wrong with the cluster ("doctor"), an error is
            not known ("explain"), a promise was broken ("verify"), or a target has no
            endpoint, or one that does not serve ("resolve --once")
  2         if the command could not do its work, or was not understood
  128 + n   if signal n ended it, such as 130 after Ctrl-C`,
		Example: `  quorate doctor --endpoints https://10.0.0.1:2379 --cacert ca.pem
  quorate top --endpoints 10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379
  quorate explain etcdserver: request timed out
  quorate resolve dns:///billing.shop.svc.cluster.local:8080 --health
  quorate completion bash > /etc/bash_completion.d/quorate`,
	}, "")
	root.AddCommand(newDoctorCommand(), newExplainCommand(), newResolveCommand(), newTopCommand(), newVerifyCommand())
	return root
}
