package grpcpool_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/pool/grpcpool"
)

func quickReconnect() grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
		MinConnectTimeout: testTimeout,
	})
}

// All calls get gRPC's error, and their number opens no connections.
func TestUnreachable(t *testing.T) {
	const closed = "127.0.0.1:1" // given to no socket that asks for any port
	conn, err := grpcpool.NewClient("passthrough:///"+closed, grpcpool.Config{TransportCredentials: insecure.NewCredentials()})
	require.NoError(t, err)
	defer conn.Close()
	var c calls
	c.start(300, emptyCall(t, pb.NewTestServiceClient(conn)))
	for _, err := range c.wait() {
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.ErrorContains(t, err, "connection refused")
	}
	assert.Len(t, conn.Stats().Unary.Connections, 1)

	err = conn.Ready(grpctest.Within(t, 50*time.Millisecond))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, closed)
}

// Calls that wait for ready succeed once there is a server.
func TestWaitForReady(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(10))
	s.lis.setRefusing(true)
	conn, client := open(t, s, grpcpool.Config{}, quickReconnect())
	require.Equal(t, codes.Unavailable, status.Code(emptyCall(t, client)()))
	var c calls
	c.start(40, emptyCall(t, client, grpc.WaitForReady(true)))
	eventually(t, "all calls wait", func() bool { return conn.Stats().Unary.Calls == 41 })
	s.lis.setRefusing(false)
	c.requireOK(t)
	assert.Zero(t, conn.Stats().Unary.InFlight)
}

// One of two connections is lost and cannot reconnect. No call fails while the other one has
// capacity.
func TestLostConnectionIsAvoided(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(50))
	conn, client := open(t, s, grpcpool.Config{Unary: grpcpool.Bounds{Min: 2, Max: 2}}, quickReconnect())
	require.NoError(t, conn.Ready(t.Context()))
	require.Equal(t, 2, s.lis.accepted())
	s.lis.setRefusing(true)
	s.lis.cut(0)
	eventually(t, "the loss is noticed", func() bool { return ready(conn) == 1 })
	for range 100 {
		require.NoError(t, emptyCall(t, client)())
	}

	// More calls than one connection carries wait for it rather than fail on the other.
	c := s.fill(t, client, 80, 50)
	eventually(t, "the rest waits", func() bool { return conn.Stats().Unary.Waiting == 30 })
	s.letGo()
	c.requireOK(t)

	// The connection is used again when it has reconnected.
	s.lis.setRefusing(false)
	c = s.fill(t, client, 80, 80)
	_, conns := s.now()
	assert.Equal(t, 2, conns)
	s.letGo()
	c.requireOK(t)
}

// A server that bounds the age of connections fails no call.
func TestServerCyclesConnections(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(4),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 50 * time.Millisecond}))
	conn, client := open(t, s, grpcpool.Config{IdleTimeout: 100 * time.Millisecond})
	stream := openEcho(t, t.Context(), client)
	var c calls
	cycled := func() bool { return s.connections() > 10 }
	c.start(16, func() error {
		for !cycled() {
			if err := emptyCall(t, client)(); err != nil {
				return err
			}
		}
		return nil
	})
	c.requireOK(t)
	echo(t, stream)
	finish(t, stream)
	assert.Zero(t, conn.Stats().Unary.InFlight)
}

// Idle channels reconnect.
func TestChannelIdle(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(10))
	conn, client := open(t, s, grpcpool.Config{}, grpc.WithIdleTimeout(100*time.Millisecond))
	for range 3 {
		c := s.fill(t, client, 25, 25)
		s.letGo()
		c.requireOK(t)
		eventually(t, "the channels are idle", func() bool { return ready(conn) == 0 })
	}
	assert.Len(t, conn.Stats().Unary.Connections, 3)
}

// After a GOAWAY, the streams on a connection continue. They do not count against the limit of the
// next connections, and waiting calls use those within their limits.
func TestStreamsOutliveTheirConnection(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(2),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 100 * time.Millisecond}))
	conn, client := open(t, s, grpcpool.Config{Streams: grpcpool.Bounds{Max: 1}})
	streams := openEchoes(t, grpctest.Within(t, testTimeout), client, 8)
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

// A connection is lost, and the owner of its stream does not read. Waiting calls do not wait for
// the owner.
func TestLossBehindAStream(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(1))
	conn, client := open(t, s, grpcpool.Config{Streams: grpcpool.Bounds{Max: 1}}, quickReconnect())
	ctx := grpctest.Within(t, testTimeout)
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
