// Controller reconciles two prefixes, in one process at a time: it puts examples/actual/NAME for each key examples/desired/NAME, and
// deletes it when the desired key is deleted. etcd refuses the writes of a process that does not lead any more.
//
//	go run ./examples/controller --endpoints 127.0.0.1:2379
package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/controller"
	"github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/examples/internal/start"
)

const desired, actual = "examples/desired/", "examples/actual/"

var (
	name = flag.String("name", "one", "who reconciles")
	ttl  = flag.Duration("ttl", leaderelection.DefaultTTL, "how long a process that has died still leads")
)

func main() { start.Main(run) }

// run follows the desired keys, and reconciles them while this process leads.
func run(ctx context.Context, client *clientv3.Client) error {
	c, err := cache.New(client, cache.Config{Prefixes: []string{desired}})
	if err != nil {
		return err
	}
	defer c.Close()
	objects, err := cache.NewInformer(c, cache.InformerConfig[string]{Decode: func(_, v []byte) (string, error) { return string(v), nil }})
	if err != nil {
		return err
	}
	return leaderelection.Run(ctx, client, leaderelection.Config{Name: "examples/controller", TTL: *ttl}, func(ctx context.Context, term *leaderelection.Term) error {
		fmt.Println(*name, "leads")
		if err := deleteOrphans(ctx, objects, term.KV()); err != nil {
			return err
		}
		return controller.Run(ctx, objects, controller.Config[string]{Workers: 4, Resync: time.Hour}, func(ctx context.Context, key string) error {
			made := actual + strings.TrimPrefix(key, desired)
			if object, ok := objects.Get(key); ok {
				_, err := term.KV().Put(ctx, made, *name+" made "+object.Value)
				return err
			}
			_, err := term.KV().Delete(ctx, made)
			return err
		})
	})
}

// deleteOrphans deletes what was made for keys that were deleted while no process led: controller.Run has calls for present keys, and
// for those that are deleted while it runs. What was made for a key that is deleted in between stays until the next term.
func deleteOrphans(ctx context.Context, objects *cache.Informer[string], kv clientv3.KV) error {
	made, err := kv.Get(ctx, actual, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	if err := objects.WaitForRevision(ctx, made.Header.Revision); err != nil { // an older view lacks new objects
		return err
	}
	for _, m := range made.Kvs {
		if _, ok := objects.Get(desired + strings.TrimPrefix(string(m.Key), actual)); ok {
			continue
		}
		if _, err := kv.Delete(ctx, string(m.Key)); err != nil {
			return err
		}
	}
	return nil
}
