package jobs_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/jobs"
)

// A program enqueues a job, and handles those of the queue until it ends.
func ExampleQueue_Work() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())

	queue, err := jobs.New(client, jobs.Config{Name: "mail"})
	if err != nil {
		panic(err)
	}
	if _, err := queue.Enqueue(ctx, "ann@example.org", jobs.WithID("welcome ann")); err != nil {
		panic(err)
	}
	err = queue.Work(ctx, 50, func(_ context.Context, job *jobs.Job) error {
		fmt.Println(job.ID, "to", job.Payload, "attempt", job.Attempt)
		cancel() // the program ends
		return nil
	})
	fmt.Println(err)
	_, err = queue.Get(context.Background(), "welcome ann")
	fmt.Println("acknowledged:", errors.Is(err, jobs.ErrNotFound))
	// Output:
	// welcome ann to ann@example.org attempt 1
	// context canceled
	// acknowledged: true
}

// The result of a job is written in the transaction that acknowledges it: once, although the job may be handled again.
func ExampleJob_Ack() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())

	queue, err := jobs.New(client, jobs.Config{Name: "sums"})
	if err != nil {
		panic(err)
	}
	if _, err := queue.Enqueue(ctx, "1+1"); err != nil {
		panic(err)
	}
	_ = queue.Work(ctx, 50, func(ctx context.Context, job *jobs.Job) error {
		defer cancel() // the program ends
		return job.Ack(ctx, clientv3.OpPut("results/"+job.Payload, "2"))
	})
	resp, err := client.Get(context.Background(), "results/1+1")
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", resp.Kvs[0].Value)
	// Output: 2
}
