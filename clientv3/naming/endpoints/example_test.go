package endpoints_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
)

// A server registers itself with a lease, so that its endpoint is deleted if it crashes.
func ExampleManager_AddEndpoint() {
	client, stop := clienttest.Example(1)
	defer stop()
	ctx := context.Background()
	manager, err := endpoints.NewManager(client, "billing")
	if err != nil {
		panic(err)
	}

	lease, err := client.Grant(ctx, 10)
	if err != nil {
		panic(err)
	}
	self := endpoints.Endpoint{Addr: "10.0.0.7:443", Metadata: "zone-a"}
	if err := manager.AddEndpoint(ctx, "billing/10.0.0.7:443", self, clientv3.WithLease(lease.ID)); err != nil {
		panic(err)
	}
	all, err := manager.List(ctx)
	fmt.Println(all, err)

	if _, err := client.Revoke(ctx, lease.ID); err != nil {
		panic(err)
	}
	all, err = manager.List(ctx)
	fmt.Println(all, err)
	// Output:
	// map[billing/10.0.0.7:443:{10.0.0.7:443 zone-a}] <nil>
	// map[] <nil>
}

// The channel delivers the present endpoints, and then every change.
func ExampleManager_NewWatchChannel() {
	client, stop := clienttest.Example(1)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	manager, err := endpoints.NewManager(client, "billing")
	if err != nil {
		panic(err)
	}
	if err := manager.AddEndpoint(ctx, "billing/1", endpoints.Endpoint{Addr: "10.0.0.7:443"}); err != nil {
		panic(err)
	}

	changes, err := manager.NewWatchChannel(ctx)
	if err != nil {
		panic(err)
	}
	for _, u := range <-changes {
		fmt.Println("there is", u.Endpoint.Addr)
	}
	if err := manager.Update(ctx, []*endpoints.UpdateWithOpts{
		endpoints.NewAddUpdateOpts("billing/2", endpoints.Endpoint{Addr: "10.0.0.8:443"}),
		endpoints.NewDeleteUpdateOpts("billing/1"),
	}); err != nil {
		panic(err)
	}
	for _, u := range <-changes {
		if u.Op == endpoints.Add {
			fmt.Println("new is", u.Endpoint.Addr)
		} else {
			fmt.Println("gone is", u.Key)
		}
	}
	// Output:
	// there is 10.0.0.7:443
	// new is 10.0.0.8:443
	// gone is billing/1
}
