package resolver_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/clientv3/naming/resolver"
)

// startBilling runs the server of the example and returns its address.
func startBilling() (addr string, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), server.Stop
}

// A server registers its address under the name of its service; a client dials the
// name.
func ExampleNewBuilder() {
	client, stop := clienttest.Example(1)
	defer stop()
	ctx := context.Background()

	addr, stopServer := startBilling()
	defer stopServer()
	manager, err := endpoints.NewManager(client, "billing")
	if err != nil {
		panic(err)
	}
	if err := manager.AddEndpoint(ctx, "billing/"+addr, endpoints.Endpoint{Addr: addr}); err != nil {
		panic(err)
	}

	builder, err := resolver.NewBuilder(client)
	if err != nil {
		panic(err)
	}
	conn, err := grpc.NewClient("etcd:///billing",
		grpc.WithResolvers(builder),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		panic(err)
	}
	fmt.Println(resp.Status)
	// Output:
	// SERVING
}
