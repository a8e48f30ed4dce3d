package controller_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/controller"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/leaderelection"
)

// One process at a time reconciles. etcd refuses its writes when it does not lead any more.
func ExampleRun() {
	client, stop := clienttest.Example(1)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := client.Put(ctx, "desired/lamp", "on"); err != nil {
		panic(err)
	}

	c, err := cache.New(client, cache.Config{Prefixes: []string{"desired/"}})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	desired, err := cache.NewInformer(c, cache.InformerConfig[string]{
		Decode: func(_, value []byte) (string, error) { return string(value), nil },
	})
	if err != nil {
		panic(err)
	}
	err = leaderelection.Run(ctx, client, leaderelection.Config{Name: "lamps"}, func(ctx context.Context, term *leaderelection.Term) error {
		return controller.Run(ctx, desired, controller.Config[string]{Workers: 4}, func(ctx context.Context, key string) error {
			lamp, ok := desired.Get(key)
			if !ok {
				return nil // it was deleted
			}
			if _, err := term.KV().Put(ctx, "actual/lamp", lamp.Value); err != nil {
				return err // it is tried again
			}
			fmt.Println(key, "is", lamp.Value)
			cancel()
			return nil
		})
	})
	fmt.Println(err)
	// Output:
	// desired/lamp is on
	// <nil>
}
