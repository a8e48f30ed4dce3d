package mirror_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mirror"
)

// A map is filled with the keys of a cluster and kept up to date.
func Example() {
	client, stop := clienttest.Example(1)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, key := range []string{"color/door", "color/roof"} {
		if _, err := client.Put(ctx, key, "red"); err != nil {
			panic(err)
		}
	}

	colors := map[string]string{}
	syncer := mirror.NewSyncer(client, "color/", 0)
	pages, errs := syncer.SyncBase(ctx)
	for page := range pages {
		for _, kv := range page.Kvs {
			colors[string(kv.Key)] = string(kv.Value)
		}
	}
	if err := <-errs; err != nil {
		panic(err) // the map is not complete
	}
	fmt.Println(colors)

	updates := syncer.SyncUpdates(ctx)
	if _, err := client.Put(ctx, "color/door", "blue"); err != nil {
		panic(err)
	}
	resp := <-updates
	if err := resp.Err(); err != nil {
		panic(err) // changes are lost: start over
	}
	for _, event := range resp.Events {
		if event.Type == clientv3.EventTypeDelete {
			delete(colors, string(event.Kv.Key))
			continue
		}
		colors[string(event.Kv.Key)] = string(event.Kv.Value)
	}
	fmt.Println(colors)
	// Output:
	// map[color/door:red color/roof:red]
	// map[color/door:blue color/roof:red]
}
