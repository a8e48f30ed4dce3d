// Election leads when it is elected, until it is interrupted, and then lets another one lead.
//
//	go run ./examples/election --endpoints 127.0.0.1:2379
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/examples/internal/start"
)

var (
	name     = flag.String("name", "one", "who is elected")
	ttl      = flag.Duration("ttl", leaderelection.DefaultTTL, "how long a process that has died still leads")
	duration = flag.Duration("term", time.Minute, "how long to lead at most")
)

func main() { start.Main(run) }

func run(ctx context.Context, client *clientv3.Client) error {
	return leaderelection.Run(ctx, client, leaderelection.Config{Name: "examples/election", Value: *name, TTL: *ttl}, lead)
}

// lead works until ctx ends. etcd executes its writes only while this process leads.
func lead(ctx context.Context, term *leaderelection.Term) error {
	fmt.Println(*name, "leads")
	ctx, cancel := context.WithTimeout(ctx, *duration)
	defer cancel()
	for tick := time.NewTicker(time.Second); ; {
		if _, err := term.KV().Put(ctx, "examples/plan", *name); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			fmt.Println(*name, "resigns")
			return nil
		}
	}
}
