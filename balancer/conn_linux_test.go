package balancer

import (
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
)

// readOnReady is the interface that gRPC looks for.
type readOnReady interface {
	ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error)
}

func TestReadOnReady(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": t.TempDir() + "/s"} {
		t.Run(network, func(t *testing.T) {
			client, server := connected(t, network, address)
			var counts netConn
			conn, ok := counting(client, &counts).(readOnReady)
			require.True(t, ok)
			pool := mem.DefaultBufferPool()
			for _, text := range []string{"hello", "again"} {
				go func() { _, _ = server.Write([]byte(text)) }()
				buf, n, err := conn.ReadOnReady(1024, pool)
				require.NoError(t, err)
				assert.Equal(t, text, string((*buf)[:n]))
				pool.Put(buf)
			}
			assert.EqualValues(t, 10, counts.received.Load())

			require.NoError(t, server.Close())
			_, _, err := conn.ReadOnReady(1024, pool)
			assert.Equal(t, io.EOF, err)
			require.NoError(t, client.Close())
			_, _, err = conn.ReadOnReady(1024, pool)
			require.ErrorIs(t, err, net.ErrClosed)
			_, want := client.Read(make([]byte, 1))
			assert.EqualError(t, err, want.Error())
		})
	}
}

func TestReadOnReadyIsEndedByClose(t *testing.T) {
	client, _ := connected(t, "tcp", "127.0.0.1:0")
	ended := make(chan error)
	go func() {
		_, _, err := counting(client, new(netConn)).(readOnReady).ReadOnReady(1024, mem.DefaultBufferPool())
		ended <- err
	}()
	require.NoError(t, client.Close())
	require.ErrorIs(t, <-ended, net.ErrClosed)
}

// A wrapper of the user's may read other bytes than its descriptor.
func TestWrappedConnectionsAreReadThroughTheWrapper(t *testing.T) {
	type wrapper struct{ net.Conn }
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	conn := counting(wrapper{one}, new(netConn))
	_, ok := conn.(readOnReady)
	assert.False(t, ok)
	_, err := conn.(syscall.Conn).SyscallConn()
	assert.Error(t, err, "it has no socket")
}
