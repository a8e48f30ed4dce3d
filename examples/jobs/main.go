// Jobs enqueues jobs, and handles them and those of other processes until it is interrupted.
//
//	go run ./examples/jobs --endpoints 127.0.0.1:2379
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/clientv3/jobs"
	"github.com/quorate/quorate/examples/internal/start"
)

var (
	enqueue = flag.Int("enqueue", 500, "how many jobs to enqueue")
	workers = flag.Int("workers", 50, "how many jobs to handle at a time")
	ttl     = flag.Duration("ttl", 15*time.Second, "how long the claims of a process that died stay")
)

func main() { start.Main(run) }

func run(ctx context.Context, client *clientv3.Client) error {
	exact, err := idempotent.New(ctx, client, idempotent.Config{}) // each job is enqueued once, whatever fails
	if err != nil {
		return err
	}
	defer exact.Close()
	client.KV = exact
	queue, err := jobs.New(client, jobs.Config{Name: "examples/jobs", TTL: *ttl})
	if err != nil {
		return err
	}
	for i := range *enqueue {
		if _, err := queue.Enqueue(ctx, fmt.Sprint("letter ", i)); err != nil {
			return err
		}
	}
	return queue.Work(ctx, *workers, handle)
}

// handle works, and then acknowledges the job together with its result: that is written once.
func handle(ctx context.Context, job *jobs.Job) error {
	fmt.Println("begin", job.ID, job.Attempt, time.Now().UnixNano())
	defer func() { fmt.Println("end", job.ID, job.Attempt, time.Now().UnixNano()) }()
	select {
	case <-time.After(rand.N(400 * time.Millisecond)):
		return job.Ack(ctx, clientv3.OpPut("examples/sent/"+job.ID, job.Payload))
	case <-ctx.Done():
		return ctx.Err()
	}
}
