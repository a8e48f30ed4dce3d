package grpcpool_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quorate/quorate/pool/grpcpool"
)

func draining(s grpcpool.ClassStats) int {
	n := 0
	for _, c := range s.Connections {
		if c.Draining {
			n++
		}
	}
	return n
}

// Two of three connections drain, and end after their streams.
func TestShrinkCutsNoStream(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(2))
	conn, client := open(t, s, grpcpool.Config{IdleTimeout: 20 * time.Millisecond})
	streams := openEchoes(t, t.Context(), client, 6)
	require.Len(t, conn.Stats().Streams.Connections, 3)
	// Each connection was full before the next was opened.
	finish(t, streams[1], streams[3], streams[5])
	eventually(t, "three streams need two connections", func() bool { return draining(conn.Stats().Streams) == 1 })
	finish(t, streams[2])
	eventually(t, "two need one", func() bool {
		stats := conn.Stats().Streams
		return len(stats.Connections)-draining(stats) == 1
	})
	for _, i := range []int{0, 4} {
		echo(t, streams[i])
		finish(t, streams[i])
	}
	eventually(t, "one connection is left", func() bool { return len(conn.Stats().Streams.Connections) == 1 })
	assert.EqualValues(t, 2, conn.Stats().Streams.Closed)
	finish(t, openEcho(t, t.Context(), client))
}

// A draining connection is reused before a new one is opened.
func TestDrainingConnectionIsReused(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(4))
	conn, client := open(t, s, grpcpool.Config{IdleTimeout: 20 * time.Millisecond})
	streams := openEchoes(t, t.Context(), client, 8)
	require.Len(t, conn.Stats().Streams.Connections, 2)
	var left []pb.TestService_FullDuplexCallClient
	for i, stream := range streams {
		if i%4 == 0 { // one stream stays on each
			left = append(left, stream)
		} else {
			finish(t, stream)
		}
	}
	eventually(t, "one drains", func() bool { return draining(conn.Stats().Streams) == 1 })
	left = append(left, openEchoes(t, t.Context(), client, 6)...)
	assert.EqualValues(t, 2, conn.Stats().Streams.Opened)
	finish(t, left...)
}

// The minimum connections are kept.
func TestMinIsKept(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(1))
	conn, client := open(t, s, grpcpool.Config{IdleTimeout: 10 * time.Millisecond, Streams: grpcpool.Bounds{Min: 2, Max: 4}})
	require.NoError(t, conn.Ready(t.Context(), grpcpool.Streams))
	assert.Equal(t, 2, s.lis.accepted())
	finish(t, openEchoes(t, t.Context(), client, 4)...)
	eventually(t, "two are left", func() bool { return len(conn.Stats().Streams.Connections) == 2 })
	streams := openEchoes(t, t.Context(), client, 2)
	assert.EqualValues(t, 4, conn.Stats().Streams.Opened)
	finish(t, streams...)
}

// A connection that a call waits for takes longer to make than the idle time.
func TestAConnectionThatIsWaitedForIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lis := bufconn.Listen(1 << 16)
		s := serveOn(t, lis, grpc.MaxConcurrentStreams(1))
		conn, client := open(t, s, grpcpool.Config{IdleTimeout: time.Second}, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			time.Sleep(3 * time.Second)
			return lis.DialContext(ctx)
		}))
		for n := range 3 {
			begin := time.Now()
			stream := openEcho(t, t.Context(), client)
			assert.Equal(t, 3*time.Second, time.Since(begin))
			assert.EqualValues(t, n+1, conn.Stats().Streams.Opened)
			defer finish(t, stream)
		}
	})
}

// Calls, streams, canceled contexts, growth and shrinking run concurrently. A call fails only
// because of its own context, and all counts are right in the end.
func TestStorm(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(3))
	conn, client := open(t, s, grpcpool.Config{IdleTimeout: time.Millisecond})
	stop, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond) // longer than surplus connections stay open
	defer cancel()
	var all sync.WaitGroup
	worker := func(work func(ctx context.Context) error) {
		all.Go(func() {
			for i := 0; stop.Err() == nil; i++ {
				long := testTimeout
				if i%5 == 4 {
					long = time.Duration(i%700) * time.Microsecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), long)
				if err := work(ctx); long == testTimeout {
					assert.NoError(t, err)
				} else if err != nil {
					assert.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
				}
				cancel()
			}
		})
	}
	for range 12 {
		worker(func(ctx context.Context) error {
			_, err := client.EmptyCall(ctx, &pb.Empty{})
			return err
		})
		worker(func(ctx context.Context) error { return streamOnce(ctx, client) })
	}
	all.Go(func() {
		for stop.Err() == nil {
			conn.Stats()
			time.Sleep(2 * time.Millisecond) // pauses without calls close connections
		}
	})
	all.Wait()
	eventually(t, "nothing is in flight, and one connection left in each class", func() bool {
		stats := conn.Stats()
		return stats.Unary.InFlight == 0 && stats.Streams.InFlight == 0 &&
			len(stats.Unary.Connections) == 1 && len(stats.Streams.Connections) == 1
	})
	stats := conn.Stats()
	assert.Zero(t, stats.Unary.Waiting)
	assert.Greater(t, stats.Unary.Opened, uint64(1))
	t.Logf("unary: %d calls, %d connections; streams: %d, %d", stats.Unary.Calls, stats.Unary.Opened, stats.Streams.Calls, stats.Streams.Opened)
}
