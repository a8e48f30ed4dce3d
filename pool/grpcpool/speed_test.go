package grpcpool_test

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/pool/grpcpool"
)

const (
	wireRate   = 60_000_000 // bytes per second in each direction
	wireChunk  = 16 << 10   // connections take turns, one chunk each
	wireBuffer = 8 * wireChunk
)

// wire is a link in memory to a server. Its connections share the rate of each direction.
type wire struct {
	*bufconn.Listener
	there, back pacer
}

func newWire() *wire { return &wire{Listener: bufconn.Listen(wireBuffer)} }

// dial connects over the link.
func (w *wire) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := w.DialContext(ctx)
	return &pacedConn{conn, &w.back}, err
}

// Accept returns the server's end of a connection.
func (w *wire) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	return &pacedConn{conn, &w.there}, err
}

// pacedConn reads at the rate of a direction.
type pacedConn struct {
	net.Conn
	rate *pacer
}

func (c *pacedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), wireChunk)])
	c.rate.send(n)
	return n, err
}

// pacer is the transmitter of one direction.
type pacer struct {
	mu   sync.Mutex
	free time.Time
}

// send returns when n bytes have been sent.
func (p *pacer) send(n int) {
	p.mu.Lock()
	if now := time.Now(); p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(n) * time.Second / wireRate)
	sent := p.free
	p.mu.Unlock()
	time.Sleep(time.Until(sent))
}

// Time in these tests is virtual, and so independent of the load of the machine.

// dial connects to a server in memory.
type dial func(...grpc.DialOption) (closer, error)

type closer interface {
	grpc.ClientConnInterface
	Close() error
}

func dialOne(opts ...grpc.DialOption) (closer, error) {
	return grpc.NewClient("passthrough:///memory", append(opts, insecureOption())...)
}

func dialPool(opts ...grpc.DialOption) (closer, error) {
	return grpcpool.NewClient("passthrough:///memory", grpcpool.Config{TransportCredentials: insecure.NewCredentials()}, opts...)
}

// slow answers after 20 ms.
type slow struct {
	pb.UnimplementedTestServiceServer
}

func (slow) EmptyCall(_ context.Context, in *pb.Empty) (*pb.Empty, error) {
	time.Sleep(20 * time.Millisecond)
	return in, nil
}

// 256 callers of a method that takes 20 ms, and a server that allows 100 streams on a connection.
// One connection carries 100 calls per 20 ms, the pool all 256.
func TestThroughput(t *testing.T) {
	one, pooled := answered(t, dialOne), answered(t, dialPool)
	t.Logf("in 200 ms: %d answers over one connection, %d over the pool: %.2f times", one, pooled, float64(pooled)/float64(one))
	assert.InDelta(t, 1000, one, 100)
	assert.GreaterOrEqual(t, float64(pooled), 2.2*float64(one))
}

// inMemory calls a service in memory, in virtual time.
func inMemory(t *testing.T, dial dial, service pb.TestServiceServer, call func(*testing.T, pb.TestServiceClient), opts ...grpc.ServerOption) {
	synctest.Test(t, func(t *testing.T) {
		link := newWire()
		s := grpc.NewServer(append(opts, grpc.WaitForHandlers(true))...)
		pb.RegisterTestServiceServer(s, service)
		go func() { _ = s.Serve(link) }()
		conn, err := dial(grpc.WithContextDialer(link.dial))
		require.NoError(t, err)
		call(t, pb.NewTestServiceClient(conn))
		require.NoError(t, conn.Close())
		s.Stop()
		synctest.Wait()
	})
}

// answered returns how many calls are answered in a little over 200 ms of virtual time.
func answered(t *testing.T, dial dial) int64 {
	var n atomic.Int64
	inMemory(t, dial, slow{}, func(t *testing.T, client pb.TestServiceClient) {
		ctx, cancel := context.WithTimeout(t.Context(), 210*time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		for range 256 {
			all.Go(func() {
				_, err := client.EmptyCall(ctx, &pb.Empty{})
				for ; err == nil; _, err = client.EmptyCall(ctx, &pb.Empty{}) {
					n.Add(1)
				}
				assert.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
			})
		}
		all.Wait()
	}, grpc.MaxConcurrentStreams(100))
	return n.Load()
}

// large is the size of a message in a stream: a little less than gRPC's maximum.
const large = 4_000_000

// mover answers small calls, and transfers large messages in both directions.
type mover struct {
	pb.UnimplementedTestServiceServer
}

// EmptyCall answers after the round trip of the link.
func (mover) EmptyCall(_ context.Context, in *pb.Empty) (*pb.Empty, error) {
	time.Sleep(2 * time.Millisecond)
	return in, nil
}

func (mover) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

func (mover) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, stream pb.TestService_StreamingOutputCallServer) error {
	message := &pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, large)}}
	for {
		if err := stream.Send(message); err != nil {
			return err
		}
	}
}

func upload(ctx context.Context, client pb.TestServiceClient) error {
	stream, err := client.StreamingInputCall(ctx)
	if err != nil {
		return err
	}
	message := &pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, large)}}
	for err == nil {
		err = stream.Send(message)
	}
	if err == io.EOF {
		_, err = stream.CloseAndRecv()
	}
	return err
}

func download(ctx context.Context, client pb.TestServiceClient) error {
	stream, err := client.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
	for err == nil {
		_, err = stream.Recv()
	}
	return err
}

// Small calls beside four streams of 4 MB messages, on a link of 60 MB/s and 2 ms. Over one
// connection they wait behind the messages; with a connection for each class they do not.
func TestSmallBesideLarge(t *testing.T) {
	idle := percentile99(t, dialOne, nil)
	for _, tt := range []struct {
		name string
		move func(context.Context, pb.TestServiceClient) error
	}{{"upload", upload}, {"download", download}} {
		t.Run(tt.name, func(t *testing.T) {
			one, pooled := percentile99(t, dialOne, tt.move), percentile99(t, dialPool, tt.move)
			t.Logf("p99: %v with the link idle, %v over one connection, %v over the pool", idle, one, pooled)
			assert.LessOrEqual(t, pooled, 2*idle)
			assert.Greater(t, one, 2*idle, "otherwise the test proves nothing")
		})
	}
}

// percentile99 returns the p99 of small calls beside large streams, or without streams if move is
// nil.
func percentile99(t *testing.T, dial dial, move func(context.Context, pb.TestServiceClient) error) (p99 time.Duration) {
	inMemory(t, dial, mover{}, func(t *testing.T, client pb.TestServiceClient) {
		ctx, cancel := context.WithCancel(t.Context())
		var streams sync.WaitGroup
		if move != nil {
			for range 4 {
				streams.Go(func() {
					if err := move(ctx, client); ctx.Err() == nil {
						assert.NoError(t, err)
					}
				})
			}
			time.Sleep(50 * time.Millisecond) // the streams fill all buffers
		}
		p99 = smallCalls(t, client)
		cancel()
		streams.Wait()
	})
	return p99
}

// smallCalls makes calls on a warm connection for 100 ms of virtual time.
func smallCalls(t *testing.T, client pb.TestServiceClient) (p99 time.Duration) {
	_, err := client.EmptyCall(t.Context(), &pb.Empty{})
	require.NoError(t, err)
	var mu sync.Mutex
	var took []time.Duration
	var callers sync.WaitGroup
	end := time.Now().Add(100 * time.Millisecond)
	for range 4 {
		callers.Go(func() {
			for begin := time.Now(); begin.Before(end); begin = time.Now() {
				_, err := client.EmptyCall(t.Context(), &pb.Empty{})
				assert.NoError(t, err)
				mu.Lock()
				took = append(took, time.Since(begin))
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
}

// BenchmarkInvoke compares a call over the pool with bare gRPC.
func BenchmarkInvoke(b *testing.B) {
	address := grpctest.Serve(b, func(s grpc.ServiceRegistrar) { pb.RegisterTestServiceServer(s, greeter{}) }, grpc.MaxConcurrentStreams(1000))
	target := "passthrough:///" + address.String()
	bare, err := grpc.NewClient(target, insecureOption())
	require.NoError(b, err)
	defer bare.Close()
	pooled, err := grpcpool.NewClient(target, grpcpool.Config{TransportCredentials: insecure.NewCredentials()})
	require.NoError(b, err)
	defer pooled.Close()

	request := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 100)}}
	for _, bb := range []struct {
		name string
		conn grpc.ClientConnInterface
	}{{"grpc", bare}, {"pool", pooled}} {
		b.Run(bb.name, func(b *testing.B) {
			client := pb.NewTestServiceClient(bb.conn)
			b.ReportAllocs()
			for b.Loop() {
				_, err := client.UnaryCall(b.Context(), request)
				require.NoError(b, err)
			}
		})
	}
}
