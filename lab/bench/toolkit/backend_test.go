package toolkit

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/lab/link"
)

// backend is a server that a scenario slows down, lets fail or freezes.
type backend struct {
	pb.UnimplementedTestServiceServer
	server *grpc.Server
	health *health.Server
	link   *link.Link // nil unless a backend freezes
	addr   string

	takes atomic.Int64 // nanoseconds for each call
	fails atomic.Bool
	calls atomic.Int64 // and streams that have begun
}

// start starts a backend for a scenario.
func start(tb testing.TB, s scenario) *backend {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	b := &backend{addr: lis.Addr().String(), health: health.NewServer()}
	b.takes.Store(int64(s.takes))
	b.server = grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if s.denies && strings.HasPrefix(info.FullMethod, "/grpc.health.v1.") {
			return nil, status.Error(codes.Unauthenticated, "no token")
		}
		return handle(ctx, in)
	}))
	pb.RegisterTestServiceServer(b.server, b)
	grpc_health_v1.RegisterHealthServer(b.server, b.health)
	if s.freezes {
		b.link, err = link.Listen(b.addr)
		require.NoError(tb, err)
		b.addr = b.link.Addr()
	}
	go b.server.Serve(lis)
	return b
}

func (b *backend) stop() {
	b.health.Shutdown()
	if b.link != nil {
		b.link.Close()
	}
	b.server.Stop()
}

// EmptyCall takes as long as the scenario says.
func (b *backend) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) {
	b.calls.Add(1)
	if b.fails.Load() {
		return nil, status.Error(codes.Unavailable, "this backend fails")
	}
	time.Sleep(time.Duration(b.takes.Load()))
	return &pb.Empty{}, nil
}

// StreamingOutputCall sends the address of the backend, ten times a second until the stream ends.
func (b *backend) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, stream pb.TestService_StreamingOutputCallServer) error {
	b.calls.Add(1)
	message := &pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: []byte(b.addr)}}
	for {
		if err := stream.Send(message); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
