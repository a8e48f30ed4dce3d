// Counter counts while it leads: each number once, even if leaders are killed or frozen.
//
//	go run ./examples/counter --endpoints 127.0.0.1:2379
package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/examples/internal/start"
)

var (
	to  = flag.Int("to", 1000, "the last number")
	ttl = flag.Duration("ttl", 15*time.Second, "how long a process that has died still leads")
)

func main() { start.Main(run) }

func run(ctx context.Context, client *clientv3.Client) error {
	exact, err := idempotent.New(ctx, client, idempotent.Config{}) // no write has an unknown outcome
	if err != nil {
		return err
	}
	defer exact.Close()
	client.KV = exact
	return leaderelection.Run(ctx, client, leaderelection.Config{Name: "examples/counting", TTL: *ttl}, count)
}

// count goes on where the previous leader stopped, which can no longer write.
func count(ctx context.Context, term *leaderelection.Term) error {
	kv, n := term.KV(), 0
	resp, err := kv.Get(ctx, "examples/count")
	if err == nil && resp.Count > 0 {
		n, err = strconv.Atoi(string(resp.Kvs[0].Value))
	}
	fmt.Println("counts from", n)
	for ; err == nil && n < *to; n++ {
		_, err = kv.Put(ctx, "examples/count", strconv.Itoa(n+1))
	}
	return err
}
