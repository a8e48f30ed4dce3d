// Quickstart writes, reads and deletes a key.
//
//	go run ./examples/quickstart --endpoints 127.0.0.1:2379
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/clientconfig"
)

func main() {
	settings := clientconfig.Flags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := connect(ctx, settings)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// connect runs the example with a client as flags and the environment describe it.
func connect(ctx context.Context, settings clientconfig.Source) error {
	config, err := clientconfig.Load(settings, clientconfig.Env())
	if err != nil {
		return err
	}
	client, err := clientv3.New(config)
	if err != nil {
		return err
	}
	defer client.Close()
	return run(ctx, client)
}

func run(ctx context.Context, client *clientv3.Client) error {
	// Retries happen within the deadline.
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	put, err := client.Put(ctx, "examples/quickstart", "hello")
	if err != nil {
		return err
	}
	// A read without options sees every write that was acknowledged before it began.
	got, err := client.Get(ctx, "examples/quickstart")
	if err != nil {
		return err
	}
	for _, kv := range got.Kvs {
		fmt.Printf("%s = %s, written at revision %d: %v\n", kv.Key, kv.Value, kv.ModRevision, kv.ModRevision == put.Header.Revision)
	}
	deleted, err := client.Delete(ctx, "examples/quickstart")
	if err != nil {
		return err
	}
	fmt.Println("deleted:", deleted.Deleted)
	return nil
}
