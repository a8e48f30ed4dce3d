package grpcpool_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/pool/grpcpool"
)

// BenchmarkInvoke compares a call over the pool with bare gRPC.
func BenchmarkInvoke(b *testing.B) {
	address := grpctest.Serve(b, func(s grpc.ServiceRegistrar) { pb.RegisterTestServiceServer(s, greeter{}) }, grpc.MaxConcurrentStreams(1000))
	target := "passthrough:///" + address.String()
	bare, err := grpc.NewClient(target, insecureOption())
	require.NoError(b, err)
	defer bare.Close()
	pooled, err := grpcpool.NewClient(target, grpcpool.Config{TransportCredentials: insecure.NewCredentials()})
	require.NoError(b, err)
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
				_, err := client.UnaryCall(b.Context(), request)
				require.NoError(b, err)
			}
		})
	}
}
