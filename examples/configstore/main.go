// Configstore follows configurations, which are stored as JSON, or changes one:
//
//	go run ./examples/configstore --endpoints 127.0.0.1:2379
//	go run ./examples/configstore --endpoints 127.0.0.1:2379 --name web --replicas 3
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/clientconfig"
	"github.com/quorate/quorate/clientv3/store"
)

func main() {
	settings := clientconfig.Flags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := connect(ctx, settings)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// connect runs the example with a client as flags and the environment describe it.
func connect(ctx context.Context, settings clientconfig.Source) error {
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

var (
	name     = flag.String("name", "web", "the configuration to change")
	replicas = flag.Int("replicas", 0, "its new number of replicas; 0 follows all configurations")
)

// Config is what is stored.
type Config struct{ Replicas int }

func run(ctx context.Context, client *clientv3.Client) error {
	configs := store.New(client, "examples/configs/", store.JSON[Config]())
	if *replicas > 0 {
		_, err := configs.CreateOrUpdate(ctx, *name, func(c Config) (Config, error) {
			c.Replicas = *replicas
			return c, nil
		})
		return err
	}
	for c, err := range configs.Watch(ctx) {
		if err != nil && !errors.Is(err, store.ErrDecode) {
			return err
		}
		fmt.Println(c.Type, c.Key, c.Value.Replicas, err)
	}
	return nil
}
