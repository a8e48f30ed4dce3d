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
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quorate/quorate/pool/grpcpool"
)

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

// answered returns how many calls are answered in a little over 200 ms of virtual time.
func answered(t *testing.T, dial dial) (n int) {
	synctest.Test(t, func(t *testing.T) {
		lis := bufconn.Listen(1 << 20)
		s := grpc.NewServer(grpc.MaxConcurrentStreams(100), grpc.WaitForHandlers(true))
		pb.RegisterTestServiceServer(s, slow{})
		go func() { _ = s.Serve(lis) }()
		conn, err := dial(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
		require.NoError(t, err)
		client := pb.NewTestServiceClient(conn)

		ctx, cancel := context.WithTimeout(t.Context(), 210*time.Millisecond)
		defer cancel()
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 256 {
			all.Go(func() {
				for {
					if _, err := client.EmptyCall(ctx, &pb.Empty{}); err != nil {
						assert.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
						return
					}
					mu.Lock()
					n++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		require.NoError(t, conn.Close())
		s.Stop()
		synctest.Wait()
	})
	return n
}
