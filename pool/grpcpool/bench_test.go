package grpcpool_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/quorate/quorate/pool/grpcpool"
)

// BenchmarkInvoke compares a call over the pool with bare gRPC.
func BenchmarkInvoke(b *testing.B) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := grpc.NewServer(grpc.MaxConcurrentStreams(1000))
	pb.RegisterTestServiceServer(s, greeter{})
	go func() { _ = s.Serve(lis) }()
	defer s.Stop()
	bare, err := grpc.NewClient("passthrough:///"+lis.Addr().String(), insecureOption())
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	pooled, err := grpcpool.NewClient("passthrough:///"+lis.Addr().String(), grpcpool.Config{TransportCredentials: insecure.NewCredentials()})
	if err != nil {
		b.Fatal(err)
	}
	defer pooled.Close()

	request := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 100)}}
	for _, bb := range []struct {
		name string
		conn grpc.ClientConnInterface
	}{{"grpc", bare}, {"pool", pooled}} {
		b.Run(bb.name, func(b *testing.B) {
			client := pb.NewTestServiceClient(bb.conn)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.UnaryCall(context.Background(), request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
