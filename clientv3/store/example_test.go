package store_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/store"
)

// A configuration is changed while it is followed.
func ExampleStore() {
	client, stop := clienttest.Example(3)
	defer stop()
	if err := reload(context.Background(), client); !errors.Is(err, errEnough) {
		panic(err)
	}
	// Output:
	// put web 1
	// synced  0
	// put web 2
}

var errEnough = errors.New("enough")

func reload(ctx context.Context, client *clientv3.Client) error {
	configs := store.New(client, "configs/", store.JSON[Config]())
	if _, err := configs.Create(ctx, "web", Config{Replicas: 1}); err != nil {
		return err
	}
	for c, err := range configs.Watch(ctx) {
		if err != nil && !errors.Is(err, store.ErrDecode) {
			return err
		}
		fmt.Println(c.Type, c.Key, c.Value.Replicas)
		if c.Type == store.Synced {
			if err := scale(ctx, configs); err != nil {
				return err
			}
		}
		if c.Value.Replicas == 2 {
			return errEnough
		}
	}
	return nil
}

func scale(ctx context.Context, configs *store.Store[Config]) error {
	_, err := configs.Update(ctx, "web", func(c Config) (Config, error) {
		c.Replicas++
		return c, nil
	})
	return err
}

// Replicas move from one configuration to another, and an audit log says so, in one transaction.
func ExampleTxn() {
	client, stop := clienttest.Example(1)
	defer stop()
	ctx := context.Background()
	configs, audit := store.New(client, "configs/", store.JSON[Config]()), store.New(client, "audit/", store.Bytes())
	if _, err := configs.Put(ctx, "web", Config{Replicas: 3}); err != nil {
		panic(err)
	}

	_, err := store.Txn(ctx, client, func(tx *store.Tx) error {
		web, err := configs.In(tx).Get("web")
		if err != nil {
			return err
		}
		web.Replicas--
		return errors.Join(configs.In(tx).Put("web", web), audit.In(tx).Put("latest", []byte("web has one less")))
	})
	if err != nil {
		panic(err)
	}
	web, err := configs.Get(ctx, "web")
	fmt.Println(web.Value.Replicas, err)
	// Output: 2 <nil>
}
