package grpcprobe_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/grpcprobe"
)

// What a server says of one of its services.
func ExampleProber() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server, status := grpc.NewServer(), grpchealth.NewServer()
	healthpb.RegisterHealthServer(server, status)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()

	prober := grpcprobe.Prober{Service: "billing.Invoices"}
	show := func(r health.Report) { fmt.Println(r.Kind) }
	status.SetServingStatus("billing.Invoices", healthpb.HealthCheckResponse_SERVING)
	prober.Probe(context.Background(), conn, show)
	status.SetServingStatus("billing.Invoices", healthpb.HealthCheckResponse_NOT_SERVING)
	prober.Probe(context.Background(), conn, show)
	// Output:
	// served
	// refusing
}
