package grpcpool

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/quorate/quorate/internal/grpctest"
)

// A call that waits for a connection which allows no streams, and carries none, continues when
// another one replaces it.
func TestConnectionWithoutStreamsIsLost(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	first := make(chan net.Conn, 1)
	go func() {
		conn, err := lis.Accept()
		if !assert.NoError(t, err) {
			return
		}
		_, _ = conn.Write(settings(limit(0)))
		first <- conn
		_, _ = io.Copy(io.Discard, conn)
	}()
	pool, err := NewClient("passthrough:///"+lis.Addr().String(), Config{TransportCredentials: insecure.NewCredentials()})
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, pool.Ready(t.Context()))
	conn := <-first
	grpctest.ServeOn(t, lis, func(s grpc.ServiceRegistrar) { pb.RegisterTestServiceServer(s, pb.UnimplementedTestServiceServer{}) })

	answered := make(chan error, 1)
	go func() {
		_, err := pb.NewTestServiceClient(pool).EmptyCall(t.Context(), &pb.Empty{})
		answered <- err
	}()
	require.Eventually(t, func() bool { return pool.Stats().Unary.Waiting == 1 }, 30*time.Second, time.Millisecond)
	require.NoError(t, conn.Close())
	select {
	case err := <-answered:
		assert.ErrorContains(t, err, "Unimplemented")
	case <-time.After(30 * time.Second):
		t.Fatal("the call waits for ever")
	}
}
