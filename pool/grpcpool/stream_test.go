package grpcpool_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/pool/grpcpool"
)

// openEcho opens a stream and receives its echo.
func openEcho(t *testing.T, ctx context.Context, client pb.TestServiceClient) pb.TestService_FullDuplexCallClient {
	t.Helper()
	stream, err := client.FullDuplexCall(ctx)
	require.NoError(t, err)
	echo(t, stream)
	return stream
}

// openEchoes opens streams and receives an echo on each.
func openEchoes(t *testing.T, ctx context.Context, client pb.TestServiceClient, n int) []pb.TestService_FullDuplexCallClient {
	t.Helper()
	streams := make([]pb.TestService_FullDuplexCallClient, n)
	for i := range streams {
		streams[i] = openEcho(t, ctx, client)
	}
	return streams
}

func echo(t *testing.T, stream pb.TestService_FullDuplexCallClient) {
	t.Helper()
	require.NoError(t, stream.Send(&pb.StreamingOutputCallRequest{}))
	_, err := stream.Recv()
	require.NoError(t, err)
}

// finish ends streams as their owner should.
func finish(t *testing.T, streams ...pb.TestService_FullDuplexCallClient) {
	t.Helper()
	for _, stream := range streams {
		require.NoError(t, stream.CloseSend())
		_, err := stream.Recv()
		require.Equal(t, io.EOF, err)
	}
}

func streamOnce(ctx context.Context, client pb.TestServiceClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&pb.StreamingOutputCallRequest{}); err != nil {
		_, err = stream.Recv()
		return err
	}
	_, err = stream.Recv()
	return err
}

// A stream counts until it ends in one of the ways that gRPC documents.
func TestStreamCountsUntilItEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*testing.T, *server, pb.TestService_FullDuplexCallClient, context.CancelFunc)
	}{
		{"end of the server's messages", func(t *testing.T, _ *server, stream pb.TestService_FullDuplexCallClient, _ context.CancelFunc) {
			finish(t, stream)
		}},
		{"error of the server", func(t *testing.T, _ *server, stream pb.TestService_FullDuplexCallClient, _ context.CancelFunc) {
			require.NoError(t, stream.Send(&pb.StreamingOutputCallRequest{ResponseStatus: &pb.EchoStatus{Code: int32(codes.Aborted)}}))
			_, err := stream.Recv()
			require.Equal(t, codes.Aborted, status.Code(err))
		}},
		{"context", func(_ *testing.T, _ *server, _ pb.TestService_FullDuplexCallClient, cancel context.CancelFunc) {
			cancel()
		}},
		{"message that cannot be sent", func(t *testing.T, _ *server, stream pb.TestService_FullDuplexCallClient, _ context.CancelFunc) {
			require.Equal(t, codes.Internal, status.Code(stream.SendMsg("not a message")))
		}},
		{"connection lost", func(t *testing.T, s *server, stream pb.TestService_FullDuplexCallClient, _ context.CancelFunc) {
			s.lis.cut(0)
			_, err := stream.Recv()
			require.Equal(t, codes.Unavailable, status.Code(err))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t)
			conn, client := open(t, s, grpcpool.Config{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream := openEcho(t, ctx, client)
			assert.Equal(t, 1, conn.Stats().Streams.InFlight)
			tt.end(t, s, stream, cancel)
			eventually(t, "the stream is not counted", func() bool { return conn.Stats().Streams.InFlight == 0 })
			_, _ = stream.Recv()
			cancel()
			assert.Zero(t, conn.Stats().Streams.InFlight, "nor twice")
		})
	}
}

func TestStreamWithOneReply(t *testing.T) {
	conn, client := open(t, startServer(t), grpcpool.Config{})
	stream, err := client.StreamingInputCall(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&pb.StreamingInputCallRequest{}))
	assert.Equal(t, 1, conn.Stats().Streams.InFlight)
	_, err = stream.CloseAndRecv()
	require.NoError(t, err)
	assert.Zero(t, conn.Stats().Streams.InFlight)
}

// gRPC ends the stream in Header, and returns no error.
func TestStreamWithoutHeader(t *testing.T) {
	conn, client := open(t, startServer(t), grpcpool.Config{})
	stream, err := client.HalfDuplexCall(t.Context()) // not implemented
	require.NoError(t, err)
	_, err = stream.Header()
	require.NoError(t, err)
	assert.Zero(t, conn.Stats().Streams.InFlight)
	_, err = stream.Recv()
	assert.Equal(t, codes.Unimplemented, status.Code(err))
}

// A stream whose interceptor fails or panics does not count.
func TestStreamThatDoesNotOpen(t *testing.T) {
	var outcome func() error
	refuse := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
		return nil, outcome()
	}
	conn, client := open(t, startServer(t), grpcpool.Config{}, grpc.WithStreamInterceptor(refuse))
	refused := errors.New("refused")
	outcome = func() error { return refused }
	_, err := client.FullDuplexCall(t.Context())
	assert.ErrorIs(t, err, refused)
	outcome = func() error { panic(refused) }
	assert.PanicsWithValue(t, refused, func() { _, _ = client.FullDuplexCall(t.Context()) })
	assert.Zero(t, conn.Stats().Streams.InFlight)
}

// A call counts once, however often an interceptor repeats it.
func TestRetryingInterceptorCountsOnce(t *testing.T) {
	attempts := 0
	again := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		attempts++
		ctx = metadata.AppendToOutgoingContext(ctx, "attempt", "1")
		dropped, cancel := context.WithCancel(ctx)
		_, err := next(dropped, desc, cc, method, opts...)
		cancel()
		if err != nil {
			return nil, err
		}
		return next(ctx, desc, cc, method, opts...)
	}
	conn, client := open(t, startServer(t), grpcpool.Config{}, grpc.WithStreamInterceptor(again))
	stream := openEcho(t, t.Context(), client)
	assert.Equal(t, 1, attempts)
	assert.Equal(t, 1, conn.Stats().Streams.InFlight)
	finish(t, stream)
	assert.Zero(t, conn.Stats().Streams.InFlight)
}
