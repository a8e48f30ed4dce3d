package grpcpool_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/port"
	"github.com/quorate/quorate/pool/grpcpool"
)

// After a GOAWAY, the streams on a connection continue. They do not count against the limit of the
// next connections, and waiting calls use those within their limits.
func TestStreamsOutliveTheirConnection(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(2),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 100 * time.Millisecond}))
	conn, client := open(t, s, grpcpool.Config{Streams: grpcpool.Bounds{Max: 1}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	streams := openEchoes(t, ctx, client, 8)
	for _, stream := range streams {
		echo(t, stream)
	}
	stats := conn.Stats().Streams
	assert.Equal(t, 8, stats.InFlight)
	assert.Len(t, stats.Connections, 1)
	assert.GreaterOrEqual(t, s.connections(), 4)
	assert.LessOrEqual(t, s.mostOnOne(), 2)
	finish(t, streams...)
	assert.Zero(t, conn.Stats().Streams.InFlight)
}

// A server is replaced while a stream keeps its connection to the old one. The limit of the old
// one does not apply to the new one.
func TestRestartBehindAStream(t *testing.T) {
	reserved, err := port.Reserve()
	require.NoError(t, err)
	defer reserved.Release()
	lis, err := net.Listen("tcp", reserved.Address())
	require.NoError(t, err)
	old := serveOn(t, lis, grpc.MaxConcurrentStreams(2))
	conn, client := open(t, old, grpcpool.Config{Streams: grpcpool.Bounds{Max: 2}}, quickReconnect())
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	streams := []pb.TestService_FullDuplexCallClient{openEcho(t, ctx, client)}
	var stopping sync.WaitGroup
	stopping.Go(old.grpc.GracefulStop)
	defer stopping.Wait()
	eventually(t, "the server does not listen", func() bool {
		lis, err = net.Listen("tcp", old.addr)
		return err == nil
	})
	renewed := serveOn(t, lis, grpc.MaxConcurrentStreams(2))
	eventually(t, "the old connection drains", func() bool { return conn.Stats().Streams.Connections[0].State != connectivity.Ready })

	for range 4 {
		stream, err := client.FullDuplexCall(ctx, grpc.WaitForReady(true))
		require.NoError(t, err)
		echo(t, stream)
		streams = append(streams, stream)
	}
	assert.Equal(t, 2, renewed.connections())
	assert.Equal(t, 2, renewed.mostOnOne())
	assert.Equal(t, 5, conn.Stats().Streams.InFlight)
	for _, stream := range streams {
		echo(t, stream)
		finish(t, stream)
	}
}

// A connection is lost, and the owner of its stream does not read. Waiting calls do not wait for
// the owner.
func TestLossBehindAStream(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(1))
	conn, client := open(t, s, grpcpool.Config{Streams: grpcpool.Bounds{Max: 1}}, quickReconnect())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lost := openEcho(t, ctx, client)
	var c calls
	c.start(3, func() error { return streamOnce(ctx, client) })
	eventually(t, "calls wait", func() bool { return conn.Stats().Streams.Waiting == 3 })
	s.lis.cut(0)
	c.requireOK(t)
	_, err := lost.Recv()
	assert.Equal(t, codes.Unavailable, status.Code(err))
	eventually(t, "nothing is counted", func() bool { return conn.Stats().Streams.InFlight == 0 })
}
