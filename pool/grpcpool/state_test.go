package grpcpool_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/quorate/quorate/pool/grpcpool"
)

// The pool has the state methods of a *grpc.ClientConn.
func TestState(t *testing.T) {
	s := startServer(t)
	s.lis.setRefusing(true)
	conn, client := open(t, s, grpcpool.Config{Unary: grpcpool.Bounds{Min: 2}}, quickReconnect())
	assert.Contains(t, conn.Target(), s.addr)
	assert.Equal(t, connectivity.Idle, conn.GetState())
	assert.Zero(t, s.lis.accepted(), "nothing connects by itself")

	conn.Connect()
	eventually(t, "it cannot connect", func() bool { return conn.GetState() == connectivity.TransientFailure })
	s.lis.setRefusing(false)
	eventually(t, "it is connected", func() bool { return ready(conn) == 2 })
	assert.Equal(t, connectivity.Ready, conn.GetState())
	assert.Empty(t, conn.Stats().Streams.Connections, "a class that is not used has none")

	require.NoError(t, emptyCall(t, client)())
	require.NoError(t, conn.Close())
	assert.Equal(t, connectivity.Shutdown, conn.GetState())
	conn.Connect()
	assert.Equal(t, connectivity.Shutdown, conn.GetState())
}

// The pool is Ready if any connection is.
func TestStateOfAnyClass(t *testing.T) {
	s := startServer(t)
	conn, client := open(t, s, grpcpool.Config{}, grpc.WithIdleTimeout(0))
	stream := openEcho(t, t.Context(), client)
	echo(t, stream)
	// gRPC sends calls on a new connection a moment before it changes the state of the channel.
	eventually(t, "the stream's connection is ready", func() bool { return conn.GetState() == connectivity.Ready })
	assert.Equal(t, connectivity.Idle, conn.Stats().Unary.Connections[0].State)
	conn.Connect()
	eventually(t, "both are connected", func() bool { return ready(conn) == 1 })
	finish(t, stream)
}
