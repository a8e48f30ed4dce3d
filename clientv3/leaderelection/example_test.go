package leaderelection_test

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/leaderelection"
)

// A controller works while it leads. When its lease is lost it campaigns again; at SIGTERM, with a context of
// signal.NotifyContext, it resigns.
func ExampleRun() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())

	err := leaderelection.Run(ctx, client, leaderelection.Config{Name: "controllers/jobs"},
		func(ctx context.Context, term *leaderelection.Term) error {
			kv := term.KV() // writes only while this process leads
			for round := 1; ctx.Err() == nil; round++ {
				if _, err := kv.Put(ctx, "jobs/plan", fmt.Sprint("round ", round)); err != nil {
					return err
				}
				fmt.Println("planned round", round)
				cancel() // the program ends
			}
			return nil
		})
	fmt.Println("error:", err)
	// Output:
	// planned round 1
	// error: <nil>
}

// A process that was paused goes on when another one holds the lock. Its writes are refused.
func ExampleTerm_KV() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx := context.Background()

	cfg := leaderelection.Config{Name: "locks/report", ReturnOnLoss: true}
	_ = leaderelection.Run(ctx, client, cfg, func(ctx context.Context, term *leaderelection.Term) error {
		_, err := term.KV().Put(ctx, "report", "complete")
		fmt.Println("written:", err == nil)

		// What happens to a process that was paused for longer than its TTL.
		paused := context.WithoutCancel(ctx)
		if _, err := client.Delete(paused, term.Key()); err != nil {
			return err
		}
		_, err = term.KV().Put(paused, "report", "outdated")
		fmt.Println("written:", err == nil)
		return nil
	})
	// Output:
	// written: true
	// written: false
}

// Two of any number of processes work at a time.
func ExampleConfig_semaphore() {
	client, stop := clienttest.Example(3)
	defer stop()
	cfg := leaderelection.Config{Name: "semaphores/backup", Holders: 2, TTL: 10 * time.Second}

	err := leaderelection.Run(context.Background(), client, cfg,
		func(context.Context, *leaderelection.Term) error {
			fmt.Println("backs up")
			return nil
		})
	fmt.Println("error:", err)
	// Output:
	// backs up
	// error: <nil>
}
