package cache_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

func ExampleNew() {
	client, end := clienttest.Example(1)
	defer end()
	ctx := context.Background()

	c, err := cache.New(client, cache.Config{Prefixes: []string{"config/"}})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	client.KV = c

	if _, err := client.Put(ctx, "config/colour", "green"); err != nil {
		panic(err)
	}
	resp, err := client.Get(ctx, "config/colour") // linearizable: it sees the write
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s = %s\n", resp.Kvs[0].Key, resp.Kvs[0].Value)
	// Output: config/colour = green
}

// Reads that may be a little old cost the cluster one small read in that time, however many they are.
func ExampleWithMaxStaleness() {
	client, end := clienttest.Example(1)
	defer end()
	c, err := cache.New(client, cache.Config{Prefixes: []string{"config/"}})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	ctx := cache.WithMaxStaleness(context.Background(), time.Second)
	resp, err := c.Get(ctx, "config/", clientv3.WithPrefix())
	fmt.Println(resp.Count, err)
	// Output: 0 <nil>
}

// A revision that another process hands over makes a read see what it wrote.
func ExampleNotOlderThan() {
	client, end := clienttest.Example(1)
	defer end()
	c, err := cache.New(client, cache.Config{Prefixes: []string{"config/"}})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	written, err := client.Put(context.Background(), "config/colour", "green")
	if err != nil {
		panic(err)
	}
	resp, err := c.Get(cache.NotOlderThan(context.Background(), written.Header.Revision), "config/colour")
	fmt.Println(resp.Count, err)
	// Output: 1 <nil>
}

func ExampleCache_Freshness() {
	client, end := clienttest.Example(1)
	defer end()
	c, err := cache.New(client, cache.Config{Prefixes: []string{"config/"}})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	if err := c.WaitSynced(context.Background()); err != nil {
		panic(err)
	}
	f := c.Freshness()
	fmt.Println(f.Revision, f.Age < time.Minute, c.Stats().Loads)
	// Output: 1 true 1
}

func ExampleNewInformer() {
	client, end := clienttest.Example(1)
	defer end()
	ctx := context.Background()
	type server struct{ Zone string }
	if _, err := client.Put(ctx, "servers/a", `{"Zone":"north"}`); err != nil {
		panic(err)
	}

	c, err := cache.New(client, cache.Config{Prefixes: []string{"servers/"}})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	servers, err := cache.NewInformer(c, cache.InformerConfig[server]{
		Decode: func(_, value []byte) (s server, err error) { return s, json.Unmarshal(value, &s) },
		Indexes: map[string]func(string, server) []string{
			"zone": func(_ string, s server) []string { return []string{s.Zone} },
		},
	})
	if err != nil {
		panic(err)
	}
	defer servers.Close()

	changes := make(chan cache.Change[server])
	remove := servers.AddHandler(func(ch cache.Change[server]) { changes <- ch })
	fmt.Println((<-changes).Key)
	fmt.Println((<-changes).Type)
	if _, err := client.Put(ctx, "servers/a", `{"Zone":"south"}`); err != nil {
		panic(err)
	}
	moved := <-changes
	fmt.Println(moved.Type, moved.Old.Value.Zone, moved.New.Value.Zone)
	remove()

	south, err := servers.ByIndex("zone", "south")
	fmt.Println(len(south), err)
	// Output:
	// servers/a
	// synced
	// updated north south
	// 1 <nil>
}
