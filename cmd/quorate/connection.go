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

	"github.com/spf13/pflag"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/clientconfig"
	"github.com/quorate/quorate/cmd/internal/cli"
)

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
