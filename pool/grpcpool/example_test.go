package grpcpool_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/quorate/quorate/pool/grpcpool"
)

type greeter struct {
	pb.UnimplementedTestServiceServer
}

func (greeter) EmptyCall(_ context.Context, in *pb.Empty) (*pb.Empty, error) { return in, nil }

func (greeter) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

func serve(s *grpc.Server) (addr string) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	pb.RegisterTestServiceServer(s, greeter{})
	go func() { _ = s.Serve(lis) }()
	return lis.Addr().String()
}

// A generated client accepts the pool like a connection. Large requests, and calls assigned by
// their caller, use separate connections.
func Example() {
	server := grpc.NewServer(grpc.MaxConcurrentStreams(100))
	defer server.Stop()

	conn, err := grpcpool.NewClient(serve(server), grpcpool.Config{
		TransportCredentials: insecure.NewCredentials(),
		Unary:                grpcpool.Bounds{Max: 4},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	client := pb.NewTestServiceClient(conn)

	ctx := context.Background()
	conn.Connect() // or with the first call
	if err := conn.Ready(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(conn.GetState())
	large := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 1<<20)}}
	for _, call := range []func() error{
		func() error { _, err := client.EmptyCall(ctx, &pb.Empty{}); return err },
		func() error { _, err := client.UnaryCall(ctx, large); return err },
		func() error {
			_, err := client.EmptyCall(ctx, &pb.Empty{}, grpcpool.UseClass(grpcpool.Bulk))
			return err
		},
	} {
		if err := call(); err != nil {
			fmt.Println(err)
			return
		}
	}

	stats := conn.Stats()
	fmt.Println("unary:", stats.Unary.Calls, "on", len(stats.Unary.Connections), "connection, of", stats.Unary.Connections[0].StreamLimit, "streams at a time")
	fmt.Println("bulk:", stats.Bulk.Calls, "on", len(stats.Bulk.Connections))
	fmt.Println("streams:", stats.Streams.Calls, "on", len(stats.Streams.Connections))
	// Output:
	// READY
	// unary: 1 on 1 connection, of 100 streams at a time
	// bulk: 2 on 1
	// streams: 0 on 0
}
