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
	var told []error
	finished := grpc.OnFinish(func(err error) { told = append(told, err) })

	require.NoError(t, emptyCall(t, client, finished)())
	assert.Equal(t, []error{nil}, told)

	openEcho(t, t.Context(), client)
	told = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.FullDuplexCall(ctx, finished)
	assert.Equal(t, []error{err}, told, "of a stream that has waited in vain")

	require.NoError(t, conn.Close())
	told = nil
	_, err = client.EmptyCall(t.Context(), &pb.Empty{}, finished)
	assert.Equal(t, []error{err}, told)
	assert.Equal(t, grpcpool.ErrClosed, err)
}
