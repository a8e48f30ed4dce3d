package grpcpool

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// shy is a listener whose first connection allows no streams.
type shy struct {
	net.Listener
	once  sync.Once
	first chan net.Conn
}

func (l *shy) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	mine := false
	l.once.Do(func() { mine = true })
	if !mine {
		return conn, nil
	}
	go func() {
		_, _ = conn.Write(settings(limit(0)))
		l.first <- conn
		_, _ = io.Copy(io.Discard, conn)
	}()
	return l.Accept()
}

type answering struct {
	pb.UnimplementedTestServiceServer
}

// A call that waits for a connection which allows no streams, and carries none, continues when
// another one replaces it.
func TestConnectionWithoutStreamsIsLost(t *testing.T) {
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	lis := &shy{Listener: raw, first: make(chan net.Conn, 1)}
	server := grpc.NewServer()
	pb.RegisterTestServiceServer(server, answering{})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(lis) })
	defer serving.Wait()
	defer server.Stop()

	pool, err := NewClient("passthrough:///"+raw.Addr().String(), Config{TransportCredentials: insecure.NewCredentials()})
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, pool.Ready(t.Context()))
	answered := make(chan error, 1)
	go func() {
		_, err := pb.NewTestServiceClient(pool).EmptyCall(t.Context(), &pb.Empty{})
		answered <- err
	}()
	require.Eventually(t, func() bool { return pool.Stats().Unary.Waiting == 1 }, 30*time.Second, time.Millisecond)
	require.NoError(t, (<-lis.first).Close())
	select {
	case err := <-answered:
		assert.ErrorContains(t, err, "Unimplemented")
	case <-time.After(30 * time.Second):
		t.Fatal("the call waits for ever")
	}
}
