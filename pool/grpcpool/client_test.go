package grpcpool_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/pool/grpcpool"
)

func TestConfigErrors(t *testing.T) {
	type methods = map[string]grpcpool.Class
	for _, tt := range []struct {
		config grpcpool.Config
		want   string
	}{
		{grpcpool.Config{Unary: grpcpool.Bounds{Min: -1}}, "Config.Unary.Min is -1; it must be 1 or more, or 0 for 1"},
		{grpcpool.Config{Bulk: grpcpool.Bounds{Max: -2}}, "Config.Bulk.Max is -2; it must be 1 or more, or 0 for 8"},
		{grpcpool.Config{Streams: grpcpool.Bounds{Min: 3, Max: 2}}, "Config.Streams.Max is 2, less than its Min, 3; raise Max or remove it"},
		{grpcpool.Config{StreamsPerConnection: -1}, "Config.StreamsPerConnection is -1; it must be 1 or more"},
		{grpcpool.Config{IdleTimeout: 60}, "Config.IdleTimeout is 60ns; it must be at least 1ms, 0 for 5m0s, or negative to keep connections"},
		{grpcpool.Config{Methods: methods{"/a.B/C": 7}}, `Config.Methods["/a.B/C"] is class 7; it must be Unary, Bulk or Streams`},
		{grpcpool.Config{Methods: methods{"a.B/C": 0}}, `Config.Methods has the key "a.B/C"; it must be a full method name`},
		{grpcpool.Config{Methods: methods{"/a.B": 0}}, `Config.Methods has the key "/a.B"`},
		{grpcpool.Config{Methods: methods{"": 0}}, `Config.Methods has the key ""`},
		{grpcpool.Config{Methods: methods{"//": 0}}, `Config.Methods has the key "//"`},
	} {
		_, err := grpcpool.NewClient("passthrough:///x", tt.config, insecureOption())
		assert.ErrorContains(t, err, "grpcpool: "+tt.want)
	}
}

// NewClient returns the errors of grpc.NewClient.
func TestNewClientErrors(t *testing.T) {
	_, err := grpcpool.NewClient("passthrough:///x", grpcpool.Config{})
	assert.ErrorContains(t, err, "no transport security set")
	_, err = grpcpool.NewClient("passthrough:///x", grpcpool.Config{}, insecureOption(), grpc.WithDefaultServiceConfig("{"))
	assert.ErrorContains(t, err, "service config")
}

// Later changes of the caller's map and options have no effect.
func TestConfigIsCopied(t *testing.T) {
	s := startServer(t)
	listed := map[string]grpcpool.Class{"/grpc.testing.TestService/": grpcpool.Bulk}
	conn, client := open(t, s, grpcpool.Config{Methods: listed})
	clear(listed)
	require.NoError(t, emptyCall(t, client)())
	assert.EqualValues(t, 1, conn.Stats().Bulk.Calls)
}

// Close ends waiting calls, calls in flight, and later ones.
func TestCloseEndsEverything(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(5))
	conn, client := open(t, s, grpcpool.Config{Unary: grpcpool.Bounds{Max: 1}})
	s.holdCalls()
	stream := openEcho(t, t.Context(), client)
	var c calls
	c.start(12, emptyCall(t, client))
	eventually(t, "five calls in flight, seven waiting", func() bool {
		return conn.Stats().Unary.InFlight == 5 && conn.Stats().Unary.Waiting == 7
	})
	require.NoError(t, conn.Close())
	for _, err := range c.wait() {
		assert.Equal(t, codes.Canceled, status.Code(err), "%v", err)
	}
	_, err := stream.Recv()
	assert.Equal(t, codes.Canceled, status.Code(err))

	assert.Equal(t, grpcpool.ErrClosed, conn.Close(), "again")
	assert.Equal(t, grpcpool.ErrClosed, emptyCall(t, client)())
	_, err = client.FullDuplexCall(t.Context())
	assert.Equal(t, grpcpool.ErrClosed, err)
	assert.Equal(t, grpcpool.ErrClosed, conn.Ready(t.Context()))
	stats := conn.Stats()
	assert.Empty(t, stats.Unary.Connections)
	assert.Zero(t, stats.Unary.InFlight)
	assert.Zero(t, stats.Streams.InFlight)
	assert.Zero(t, stats.Unary.Waiting)
	assert.Equal(t, stats.Unary.Opened, stats.Unary.Closed)
}

// Ready waits for a server that is not reachable, until Close.
func TestReadyEndsWithClose(t *testing.T) {
	s := startServer(t)
	s.lis.setRefusing(true)
	conn, _ := open(t, s, grpcpool.Config{})
	var c calls
	c.start(1, func() error { return conn.Ready(t.Context(), grpcpool.Unary, grpcpool.Bulk) })
	eventually(t, "it tries", func() bool { return s.lis.accepted() > 0 })
	require.NoError(t, conn.Close())
	assert.Equal(t, []error{grpcpool.ErrClosed}, c.wait())
	assert.ErrorContains(t, conn.Ready(t.Context(), 5), "there is no class 5; use Unary, Bulk or Streams")
}

// Calls during Close end with gRPC's error, and nothing leaks.
func TestCloseStorm(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(2))
	for range 15 {
		conn, client := open(t, s, grpcpool.Config{IdleTimeout: time.Millisecond})
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				for {
					err := emptyCall(t, client)()
					if i%2 == 0 {
						err = streamOnce(t.Context(), client)
					}
					if err != nil {
						assert.Contains(t, []codes.Code{codes.Canceled, codes.Unavailable}, status.Code(err), "%v", err)
						return
					}
				}
			})
		}
		eventually(t, "calls are made", func() bool { return conn.Stats().Unary.Calls > 30 })
		for range 3 {
			all.Go(func() { _ = conn.Close() })
		}
		all.Wait()
		eventually(t, "nothing is counted", func() bool {
			stats := conn.Stats()
			return stats.Unary.InFlight == 0 && stats.Streams.InFlight == 0
		})
	}
}

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
