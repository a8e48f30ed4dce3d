// Jobs enqueues jobs, and handles them and those of other processes until it is interrupted.
//
//	go run ./examples/jobs --endpoints 127.0.0.1:2379
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/clientconfig"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/clientv3/jobs"
)

var (
	enqueue = flag.Int("enqueue", 500, "how many jobs to enqueue")
	workers = flag.Int("workers", 50, "how many jobs to handle at a time")
	ttl     = flag.Duration("ttl", 15*time.Second, "how long the claims of a process that died stay")
)

func main() {
	settings := clientconfig.Flags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := connect(ctx, settings)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
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
	exact, err := idempotent.New(ctx, client, idempotent.Config{}) // each job is enqueued once, whatever fails
	if err != nil {
		return err
	}
	defer exact.Close()
	client.KV = exact
	return run(ctx, client)
}

func run(ctx context.Context, client *clientv3.Client) error {
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
