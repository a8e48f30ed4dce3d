package grpcpool_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/quorate/quorate/pool/grpcpool"
)

// OnFinish is called once, whether gRPC ended the call or the pool never started it.
func TestOnFinish(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(1))
	conn, client := open(t, s, grpcpool.Config{Unary: grpcpool.Bounds{Max: 1}, Streams: grpcpool.Bounds{Max: 1}})
	var ended []error
	finished := grpc.OnFinish(func(err error) { ended = append(ended, err) })

	require.NoError(t, emptyCall(t, client, finished)())
	assert.Equal(t, []error{nil}, ended)

	openEcho(t, t.Context(), client)
	ended = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.FullDuplexCall(ctx, finished)
	assert.Equal(t, []error{err}, ended, "of a stream that gave up waiting")

	require.NoError(t, conn.Close())
	ended = nil
	_, err = client.EmptyCall(t.Context(), &pb.Empty{}, finished)
	assert.Equal(t, []error{err}, ended)
	assert.Equal(t, grpcpool.ErrClosed, err)
}
