// Watch follows a prefix: the existing keys, and then every change, through compactions and restored
// backups.
//
//	go run ./examples/watch --endpoints 127.0.0.1:2379
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/examples/internal/start"
)

func main() { start.Main(run) }

var (
	prefix = flag.String("prefix", "examples/watched/", "keys to follow")
	until  = flag.String("until", "", "key whose change ends the program")
)

var errDone = errors.New("the last key has changed")

func run(ctx context.Context, client *clientv3.Client) error {
	for {
		err := follow(ctx, client)
		var changed *clientv3.ClusterChangedError
		switch {
		case errors.Is(err, errDone) || ctx.Err() != nil:
			return nil
		case errors.Is(err, rpctypes.ErrCompacted), errors.As(err, &changed):
			fmt.Println("begins anew:", err) // what is known is outdated: read, and watch from there
		default:
			return err
		}
	}
}

// follow reads the prefix and watches it from the next revision on. The client resumes the
// watch on other members by itself, without loss or repetition.
func follow(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now, err := client.Get(ctx, *prefix, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	fmt.Println(len(now.Kvs), "keys")
	for resp := range client.Watch(ctx, *prefix, clientv3.WithPrefix(), clientv3.WithRev(now.Header.Revision+1)) {
		if err := resp.Err(); err != nil {
			return err
		}
		for _, event := range resp.Events {
			fmt.Printf("%v %s = %s\n", event.Type, event.Kv.Key, event.Kv.Value)
			if string(event.Kv.Key) == *until {
				return errDone
			}
		}
	}
	return ctx.Err()
}
