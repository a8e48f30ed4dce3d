package clientv3_test

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

// A key exists as long as its program runs.
func ExampleLease_keepAlive() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	lease, err := client.Grant(ctx, 30)
	if err != nil {
		panic(err)
	}
	if _, err := client.Put(ctx, "services/ann", "10.0.0.1", clientv3.WithLease(lease.ID)); err != nil {
		panic(err)
	}
	alive, err := client.KeepAlive(ctx, lease.ID)
	if err != nil {
		panic(err)
	}
	resp := <-alive
	fmt.Println("renewed for", resp.TTL, "seconds")

	// The channel is closed when the lease is no longer kept alive.
	if _, err := client.Revoke(ctx, lease.ID); err != nil {
		panic(err)
	}
	for range alive {
		fmt.Println("renewed again")
	}
	fmt.Println("over")
	// Output:
	// renewed for 30 seconds
	// over
}

// A program renews its lease itself, whenever it has made progress.
func ExampleLease_keepAliveOnce() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx := context.Background()

	lease, err := client.Grant(ctx, 30)
	if err != nil {
		panic(err)
	}
	resp, err := client.KeepAliveOnce(ctx, lease.ID)
	if err != nil {
		panic(err)
	}
	fmt.Println("renewed for", resp.TTL, "seconds")

	if _, err := client.Revoke(ctx, lease.ID); err != nil {
		panic(err)
	}
	_, err = client.KeepAliveOnce(ctx, lease.ID)
	fmt.Println(errors.Is(err, rpctypes.ErrLeaseNotFound))
	// Output:
	// renewed for 30 seconds
	// true
}

// The holder of a lock needs to know until when the lock is certainly its own, and why it was
// lost.
func ExampleWithLeaseMonitor() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())

	lease, err := client.Grant(ctx, 30)
	if err != nil {
		panic(err)
	}
	var monitor clientv3.LeaseMonitor
	alive, err := client.KeepAlive(clientv3.WithLeaseMonitor(ctx, &monitor), lease.ID)
	if err != nil {
		panic(err)
	}
	<-alive
	fmt.Println("certain for", monitor.Deadline().Sub(monitor.LastRenewal()), "after the last renewal")
	fmt.Println("error:", monitor.Err())

	cancel()
	for range alive {
		fmt.Println("renewed again")
	}
	fmt.Println("error:", monitor.Err())
	// Output:
	// certain for 30s after the last renewal
	// error: <nil>
	// error: context canceled
}
