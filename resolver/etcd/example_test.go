package etcd_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/etcdtest"
	"github.com/quorate/quorate/keepalive"
	"github.com/quorate/quorate/resolver/etcd"
)

// billing is the server of the example.
type billing struct {
	testpb.UnimplementedTestServiceServer
}

func (billing) EmptyCall(context.Context, *testpb.Empty) (*testpb.Empty, error) {
	return &testpb.Empty{}, nil
}

// newExampleClient returns a client of a cluster in memory. A program calls clientv3.New with the
// endpoints of its cluster.
func newExampleClient() (*clientv3.Client, func()) {
	etcd, err := etcdtest.New(etcdtest.Config{})
	if err != nil {
		panic(err)
	}
	return etcd.Client, etcd.Close
}

// A server registers itself, and callers dial the name of its service.
func Example() {
	client, stop := newExampleClient()
	defer stop()
	ctx := context.Background()

	// The server.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	testpb.RegisterTestServiceServer(server, billing{})
	go func() { _ = server.Serve(listener) }()
	registrar, err := etcd.Register(ctx, client, etcd.Registration{
		Service: "billing", Address: listener.Addr().String(),
		Weight: 2, Metadata: map[string]string{"zone": "a"},
	})
	if err != nil {
		panic(err)
	}

	// One of its callers.
	builder, err := etcd.NewBuilder(client, etcd.Config{})
	if err != nil {
		panic(err)
	}
	conn, err := grpc.NewClient("etcd:///billing",
		grpc.WithResolvers(builder),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"quorate_round_robin":{}}]}`),
		grpc.WithTransportCredentials(balancer.Credentials(insecure.NewCredentials())))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, err = testpb.NewTestServiceClient(conn).EmptyCall(ctx, &testpb.Empty{})
	fmt.Println("called:", err)

	// The server shuts down, and calls of its callers do not fail.
	fmt.Println("shut down:", registrar.Shutdown(ctx, server))
	fmt.Println(registrar.State().State)
	// Output:
	// called: <nil>
	// shut down: <nil>
	// removed
}

// A server shuts down without failing calls.
func ExampleRegistrar_Shutdown() {
	client, stop := newExampleClient()
	defer stop()
	ctx := context.Background()
	interrupted := make(chan struct{})
	close(interrupted)
	serve := func() error {
		server := grpc.NewServer(keepalive.Datacenter().ServerOptions()...)
		registrar, err := etcd.Register(ctx, client, etcd.Registration{Service: "billing", Address: "10.0.0.7:8080"})
		if err != nil {
			return err
		}
		<-interrupted
		return registrar.Shutdown(ctx, server) // withdraw, wait for callers to leave, drain, stop
	}
	fmt.Println(serve())
	// Output: <nil>
}

// Notify reports the state of the registration.
func ExampleRegistration_notify() {
	client, stop := newExampleClient()
	defer stop()
	ctx := context.Background()

	events := make(chan etcd.Event, 16)
	registrar, err := etcd.Register(ctx, client, etcd.Registration{
		Service: "billing", Address: "10.0.0.7:443",
		Notify: func(e etcd.Event) { events <- e },
	})
	if err != nil {
		panic(err)
	}
	fmt.Println((<-events).State)

	// An operator deletes the key by mistake.
	if _, err := client.Delete(ctx, registrar.Key()); err != nil {
		panic(err)
	}
	for range 2 {
		e := <-events
		fmt.Println(e.State, e.Again, e.Err)
	}
	fmt.Println(registrar.Withdraw(ctx))
	// Output:
	// held
	// lost false the key was deleted by another client
	// held true <nil>
	// <nil>
}
