// Package start is what the main functions of the examples share. A main function in full is in examples/quickstart.
package start

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/clientconfig"
)

// Main calls run with a client as flags and the environment describe it. Its ctx ends when the process is interrupted.
func Main(run func(context.Context, *clientv3.Client) error) {
	settings := clientconfig.Flags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := connect(ctx, settings, run)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func connect(ctx context.Context, settings clientconfig.Source, run func(context.Context, *clientv3.Client) error) error {
	config, err := clientconfig.Load(settings, clientconfig.Env())
	if err != nil {
		return err
	}
	client, err := clientv3.New(config)
	if err != nil {
		return err
	}
	defer client.Close()
	return run(ctx, client)
}
