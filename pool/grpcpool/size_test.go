package grpcpool_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/internal/testpki"
	"github.com/quorate/quorate/pool/grpcpool"
)

// The pool opens as many connections as the server's limit requires for all calls, and no more.
func TestGrowsWithTheServersLimit(t *testing.T) {
	ca := testpki.New(t, "CA")
	serverTLS := credentials.NewTLS(ca.Server(t))
	clientTLS := credentials.NewTLS(&tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12})
	limit := grpc.MaxConcurrentStreams
	type options = []grpc.ServerOption
	for _, tt := range []struct {
		name    string
		server  []grpc.ServerOption
		config  grpcpool.Config
		calls   int
		want    int // connections
		maximum int // calls on one of them
	}{
		{"100", options{limit(100)}, grpcpool.Config{}, 256, 3, 100},
		{"100 under TLS", options{limit(100), grpc.Creds(serverTLS)}, grpcpool.Config{TransportCredentials: clientTLS}, 256, 3, 100},
		{"more than gRPC assumes", options{limit(250)}, grpcpool.Config{}, 256, 2, 250},
		{"less than gRPC assumes", options{limit(7)}, grpcpool.Config{}, 30, 5, 7},
		{"none", nil, grpcpool.Config{}, 300, 1, 300},
		{"the configured limit", nil, grpcpool.Config{StreamsPerConnection: 20}, 50, 3, 20},
		{"the configured limit exceeds the server's", options{limit(10)}, grpcpool.Config{StreamsPerConnection: 20}, 50, 5, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t, tt.server...)
			conn, client := open(t, s, tt.config)
			c := s.fill(t, client, tt.calls, tt.calls)
			stats := conn.Stats().Unary
			assert.Len(t, stats.Connections, tt.want)
			assert.Equal(t, tt.want, s.connections())
			assert.LessOrEqual(t, s.mostOnOne(), tt.maximum)
			assert.Equal(t, tt.calls, stats.InFlight)
			assert.Zero(t, stats.Waiting)
			s.letGo()
			c.requireOK(t)
			assert.Zero(t, conn.Stats().Unary.InFlight)
		})
	}
}

// If all connections are full, calls wait in the pool, and continue in FIFO order.
func TestWaitersInOrder(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(1))
	conn, client := open(t, s, grpcpool.Config{Unary: grpcpool.Bounds{Max: 1}})
	c := s.fill(t, client, 1, 1)

	const waiting = 20
	var want []int32
	for i := range int32(waiting) {
		want = append(want, i)
		c.start(1, func() error {
			_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{ResponseSize: i})
			return err
		})
		eventually(t, "the call waits", func() bool { return conn.Stats().Unary.Waiting == len(want) })
	}
	s.letGo()
	c.requireOK(t)
	assert.Equal(t, want, s.sizes)
	stats := conn.Stats().Unary
	assert.EqualValues(t, waiting+1, stats.Calls)
	assert.GreaterOrEqual(t, stats.Waited, uint64(waiting))
	assert.Positive(t, stats.WaitTime)
	assert.Len(t, stats.Connections, 1)
	assert.Equal(t, 1, stats.Connections[0].StreamLimit)
}

// The code is gRPC's, the text names what the call waited for, and its place in the queue is free
// again.
func TestWaitEndsWithContext(t *testing.T) {
	s := startServer(t, grpc.MaxConcurrentStreams(1))
	conn, client := open(t, s, grpcpool.Config{Unary: grpcpool.Bounds{Max: 1}})
	c := s.fill(t, client, 1, 1)

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := client.EmptyCall(ctx, nil)
	assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
	assert.ErrorContains(t, err, "the unary class has 1 calls in flight on 1 connections, of at most 1")

	ctx, cancel = context.WithCancel(t.Context())
	var canceled calls
	canceled.start(1, func() error { _, err := client.EmptyCall(ctx, nil); return err })
	eventually(t, "the call waits", func() bool { return conn.Stats().Unary.Waiting == 1 })
	cancel()
	assert.Equal(t, codes.Canceled, status.Code(canceled.wait()[0]))
	assert.Zero(t, conn.Stats().Unary.Waiting)

	s.letGo()
	c.requireOK(t)
	require.NoError(t, emptyCall(t, client)())
}

// With credentials among the dial options the limit is unknown. The usual one is assumed: calls beyond it wait while
// another connection is being made, and go to the ones there are if none can be.
func TestUnknownLimit(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config grpcpool.Config
		conns  int
	}{
		{"below the maximum", grpcpool.Config{}, 2},
		{"none", grpcpool.Config{Unary: grpcpool.Bounds{Max: 1}}, 1},
		{"configured", grpcpool.Config{StreamsPerConnection: 50}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t)
			conn, err := grpcpool.NewClient("passthrough:///"+s.addr, tt.config, insecureOption())
			require.NoError(t, err)
			defer conn.Close()
			c := s.fill(t, pb.NewTestServiceClient(conn), 150, 150)
			assert.Len(t, conn.Stats().Unary.Connections, tt.conns)
			assert.Zero(t, conn.Stats().Unary.Connections[0].StreamLimit)
			s.letGo()
			c.requireOK(t)
		})
	}
}

// TestSeveralBackends: the limits of a channel's connections are added up.
func TestSeveralBackends(t *testing.T) {
	a := startServer(t, grpc.MaxConcurrentStreams(10))
	b := startServer(t, grpc.MaxConcurrentStreams(10))
	both := manual.NewBuilderWithScheme("both")
	both.InitialState(resolver.State{Endpoints: []resolver.Endpoint{
		{Addresses: []resolver.Address{{Addr: a.addr}}}, {Addresses: []resolver.Address{{Addr: b.addr}}},
	}})
	conn, err := grpcpool.NewClient("both:///", grpcpool.Config{TransportCredentials: insecure.NewCredentials()},
		grpc.WithResolvers(both),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`))
	require.NoError(t, err)
	defer conn.Close()
	client := pb.NewTestServiceClient(conn)
	require.NoError(t, conn.Ready(t.Context()))
	eventually(t, "both backends have announced their limits", func() bool { return conn.Stats().Unary.Connections[0].StreamLimit == 20 })
	eventually(t, "both backends are used", func() bool {
		require.NoError(t, emptyCall(t, client)())
		return a.connections() == 1 && b.connections() == 1
	})
	a.holdCalls()
	b.holdCalls()
	inside := func() int {
		inA, _ := a.now()
		inB, _ := b.now()
		return inA + inB
	}
	var c calls
	c.start(20, emptyCall(t, client))
	eventually(t, "20 calls reach the servers", func() bool { return inside() == 20 })
	assert.Len(t, conn.Stats().Unary.Connections, 1)
	c.start(1, emptyCall(t, client))
	eventually(t, "the next call has a new channel", func() bool { return inside() == 21 })
	assert.Len(t, conn.Stats().Unary.Connections, 2)
	a.letGo()
	b.letGo()
	c.requireOK(t)
}

// The pool works over channels with the quorate_ policies, which wrap the credentials too.
func TestOverQuoratePolicies(t *testing.T) {
	for _, policy := range []string{"quorate_round_robin", "quorate_p2c", "quorate_nearest"} {
		t.Run(policy, func(t *testing.T) {
			s := startServer(t, grpc.MaxConcurrentStreams(10))
			conn, client := open(t, s, grpcpool.Config{TransportCredentials: balancer.Credentials(insecure.NewCredentials())},
				grpc.WithDefaultServiceConfig(fmt.Sprintf(`{"loadBalancingConfig": [{%q: {}}]}`, policy)))
			c := s.fill(t, client, 25, 25)
			assert.Len(t, conn.Stats().Unary.Connections, 3)
			s.letGo()
			c.requireOK(t)
		})
	}
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
	stop, cancel := context.WithCancel(t.Context())
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
	eventually(t, "the pool grows and shrinks under many calls", func() bool {
		u, s := conn.Stats().Unary, conn.Stats().Streams
		return min(u.Calls, s.Calls) >= 300 && u.Opened > 1 && u.Closed+s.Closed > 0
	})
	cancel()
	all.Wait()
	eventually(t, "nothing is in flight, and one connection left in each class", func() bool {
		stats := conn.Stats()
		return stats.Unary.InFlight == 0 && stats.Streams.InFlight == 0 &&
			len(stats.Unary.Connections) == 1 && len(stats.Streams.Connections) == 1
	})
	stats := conn.Stats()
	assert.Zero(t, stats.Unary.Waiting)
	t.Logf("unary: %d calls, %d connections; streams: %d, %d", stats.Unary.Calls, stats.Unary.Opened, stats.Streams.Calls, stats.Streams.Opened)
}
