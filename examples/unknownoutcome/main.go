// Unknownoutcome counts to ten, each number once, although its connections break.
//
//	go run ./examples/unknownoutcome --endpoints 127.0.0.1:2379
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/examples/internal/start"
	"github.com/quorate/quorate/retry"
)

func main() { start.Main(run) }

const (
	counter = "examples/counter"
	marks   = "examples/counter-marks/" // one key for each writer: the last of its operations
)

func run(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	writer := rand.Text()
	for i := range 10 {
		if err := increment(ctx, client, marks+writer, strconv.Itoa(i)); err != nil {
			return err
		}
	}
	got, err := client.Get(ctx, counter)
	if err != nil {
		return err
	}
	fmt.Printf("counted to %s\n", got.Kvs[0].Value)
	_, err = client.Delete(ctx, marks+writer)
	return err
}

// increment adds one to the counter, once. The same transaction writes a mark, which tells a
// repetition whether an attempt with an unknown outcome was executed.
func increment(ctx context.Context, client *clientv3.Client, mark, operation string) error {
	for {
		read, err := client.Txn(ctx).Then(clientv3.OpGet(counter), clientv3.OpGet(mark)).Commit()
		if err != nil {
			return err
		}
		if kvs := read.Responses[1].GetResponseRange().Kvs; len(kvs) == 1 && string(kvs[0].Value) == operation {
			return nil // an attempt whose outcome was unknown was executed
		}
		value, revision := 0, int64(0)
		if kvs := read.Responses[0].GetResponseRange().Kvs; len(kvs) == 1 {
			if value, err = strconv.Atoi(string(kvs[0].Value)); err != nil {
				return err
			}
			revision = kvs[0].ModRevision
		}
		resp, err := client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(counter), "=", revision)).
			Then(clientv3.OpPut(counter, strconv.Itoa(value+1)), clientv3.OpPut(mark, operation)).
			Commit()
		switch {
		case err == nil && resp.Succeeded:
			return nil
		case err != nil && (ctx.Err() != nil || retry.OutcomeOf(err) != retry.OutcomeUnknown):
			return err
		}
		// Another writer was first, or the outcome is unknown: the next read shows which.
	}
}
