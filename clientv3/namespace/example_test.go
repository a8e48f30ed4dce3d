package namespace_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/namespace"
)

// A whole client is moved into a namespace.
func Example() {
	client, stop := clienttest.Example(1)
	defer stop()
	ctx := context.Background()

	store := client.KV
	client.KV = namespace.NewKV(client.KV, "app/")
	client.Watcher = namespace.NewWatcher(client.Watcher, "app/")
	client.Lease = namespace.NewLease(client.Lease, "app/")

	if _, err := client.Put(ctx, "color", "red"); err != nil {
		panic(err)
	}
	inside, err := client.Get(ctx, "", clientv3.WithPrefix())
	if err != nil {
		panic(err)
	}
	outside, err := store.Get(ctx, "", clientv3.WithPrefix())
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s is %s\n", inside.Kvs[0].Key, inside.Kvs[0].Value)
	fmt.Printf("%s is %s\n", outside.Kvs[0].Key, outside.Kvs[0].Value)
	// Output:
	// color is red
	// app/color is red
}

func ExampleNewWatcher() {
	client, stop := clienttest.Example(1)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	colors := namespace.NewWatcher(client, "color/").Watch(ctx, "", clientv3.WithPrefix())
	for _, key := range []string{"size/door", "color/door"} {
		if _, err := client.Put(ctx, key, "new"); err != nil {
			panic(err)
		}
	}
	for _, event := range (<-colors).Events {
		fmt.Printf("%s %s\n", event.Type, event.Kv.Key)
	}
	// Output: PUT door
}

func ExampleNewLease() {
	client, stop := clienttest.Example(1)
	defer stop()
	ctx := context.Background()

	lease, err := client.Grant(ctx, 60)
	if err != nil {
		panic(err)
	}
	for _, key := range []string{"app/worker", "elsewhere"} {
		if _, err := client.Put(ctx, key, "", clientv3.WithLease(lease.ID)); err != nil {
			panic(err)
		}
	}
	resp, err := namespace.NewLease(client, "app/").TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys())
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", resp.Keys)
	// Output: [worker]
}
