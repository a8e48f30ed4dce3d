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

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/store"
	"github.com/quorate/quorate/examples/internal/start"
)

func main() { start.Main(run) }

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
