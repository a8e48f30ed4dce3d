// Command quorate is the program for operators of etcd, and of services that use gRPC.
//
// Its exit statuses are in the help: see newRootCommand.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/clientconfig"
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

// Defaults of etcdctl.
const (
	defaultDialTimeout    = 2 * time.Second
	defaultCommandTimeout = 5 * time.Second
)

// connectionFlags say how etcd is reached, with the names and variables of etcdctl.
type connectionFlags struct {
	flags clientconfig.Source
}

func (f *connectionFlags) register(fs *pflag.FlagSet) {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	f.flags = clientconfig.Flags(set)
	fs.AddGoFlagSet(set)
}

// config returns how etcd is reached. Its errors name the flags and variables.
func (f *connectionFlags) config() (clientv3.Config, error) {
	cfg, err := clientconfig.Load(f.flags, clientconfig.Env())
	cfg.DialTimeout = cmp.Or(cfg.DialTimeout, defaultDialTimeout)
	return cfg, err
}

// connect returns a client. It asks etcd for a token if there is a user.
func connect(cfg clientv3.Config) (*clientv3.Client, error) {
	client, err := clientv3.New(cfg)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no token from etcd within %v (--dial-timeout)", cfg.DialTimeout)
	}
	return client, err
}

type commandTimeout struct {
	set   *pflag.FlagSet
	value time.Duration
}

func (f *commandTimeout) register(fs *pflag.FlagSet) {
	f.set = fs
	fs.DurationVar(&f.value, "command-timeout", defaultCommandTimeout, "longest time to wait for an answer")
}

// get returns the timeout: that of etcdctl's variable if the flag is not given.
func (f *commandTimeout) get() (time.Duration, error) {
	const variable = "ETCDCTL_COMMAND_TIMEOUT"
	origin := "--command-timeout"
	if value := os.Getenv(variable); value != "" && !f.set.Changed("command-timeout") {
		origin = variable
		var err error
		if f.value, err = time.ParseDuration(value); err != nil {
			return 0, fmt.Errorf("%s: %q is no time such as 5s", variable, value)
		}
	}
	if f.value <= 0 {
		return 0, fmt.Errorf("%s must be positive", origin)
	}
	return f.value, nil
}

// settings returns how etcd is reached, and the timeout for an answer.
func settings(client *connectionFlags, timeout *commandTimeout) (clientv3.Config, time.Duration, error) {
	cfg, err := client.config()
	if err != nil {
		return cfg, 0, err
	}
	limit, err := timeout.get()
	return cfg, limit, err
}

// output is how a command prints its result: as a table, or as one object.
type output struct {
	json bool
}

func (o *output) register(fs *pflag.FlagSet) {
	fs.FuncP("write-out", "w", "`table` or json (default table)", func(format string) error {
		o.json = format == "json"
		if !o.json && format != "table" {
			return errors.New("it must be table or json")
		}
		return nil
	})
	fs.BoolVar(&o.json, "json", false, "the same as --write-out json")
}

func (o *output) print(out io.Writer, result interface{ Text() string }) error {
	text, err := []byte(cli.Clean(result.Text())), error(nil)
	if o.json {
		text, err = json.MarshalIndent(result, "", "  ")
		text = append(cli.CleanJSON(text), '\n')
	}
	if err == nil {
		_, err = out.Write(text)
	}
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}
