package channel

import (
	"context"
	"net"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// BenchmarkInvoke compares a call through a channel with one on a bare gRPC
// connection to the same server.
func BenchmarkInvoke(b *testing.B) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := grpc.NewServer()
	pb.RegisterKVServer(srv, quickKV{})
	go func() { _ = srv.Serve(lis) }()
	defer srv.Stop()

	bare, err := grpc.NewClient("passthrough:///"+lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	ours, err := New(Config{Endpoints: []string{lis.Addr().String()}, Login: func() Login { return Login{} }, Logger: zap.NewNop})
	if err != nil {
		b.Fatal(err)
	}
	defer ours.Close()

	for name, conn := range map[string]grpc.ClientConnInterface{"bare": bare, "channel": ours} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			kv, req := pb.NewKVClient(conn), &pb.RangeRequest{Key: []byte("key")}
			for b.Loop() {
				if _, err := kv.Range(b.Context(), req, grpc.WaitForReady(true)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type quickKV struct{ pb.UnimplementedKVServer }

func (quickKV) Range(_ context.Context, _ *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{}, nil
}
