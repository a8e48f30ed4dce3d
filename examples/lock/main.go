// Lock writes under a lock, and shows that a holder who lost it writes nothing.
//
//	go run ./examples/lock --endpoints 127.0.0.1:2379
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/examples/internal/start"
)

func main() { start.Main(run) }

func run(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	// The lock goes with its session's lease, 15 s after this process dies or stops.
	session, err := concurrency.NewSession(client, concurrency.WithTTL(15), concurrency.WithContext(ctx))
	if err != nil {
		return err
	}
	defer session.Close()
	mutex := concurrency.NewMutex(session, "examples/lock")
	if err := mutex.Lock(ctx); err != nil {
		return err
	}
	if err := write(ctx, client, mutex); err != nil {
		return err
	}

	// What happens to a process that was paused for longer than the TTL: its lease is gone,
	// and it goes on as if it held the lock.
	if _, err := client.Revoke(ctx, session.Lease()); err != nil {
		return err
	}
	<-session.Done() // stop the work here; session.Err says why
	return write(ctx, client, mutex)
}

// write fences its write: the server refuses it unless the lock is held when it is executed.
func write(ctx context.Context, client *clientv3.Client, mutex *concurrency.Mutex) error {
	resp, err := client.Txn(ctx).If(mutex.IsOwner()).Then(clientv3.OpPut("examples/report", "done")).Commit()
	if err != nil {
		return err
	}
	fmt.Println("holds the lock, and has written:", resp.Succeeded)
	return nil
}
