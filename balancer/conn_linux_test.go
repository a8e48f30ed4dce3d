package balancer

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

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

// connected returns both ends of a connection. The peer reads at its own pace.
func connected(t *testing.T, network, address string) (conn, peer net.Conn) {
	t.Helper()
	listener, err := net.Listen(network, address)
	require.NoError(t, err)
	defer func() { assert.NoError(t, listener.Close()) }()
	conn, err = net.Dial(network, listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	peer, err = listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = peer.Close() })
	return conn, peer
}

// A peer that reads, however slowly, shows life. One that stops reading does not, nor one whose
// kernel buffers everything.
func TestBacklog(t *testing.T) {
	conn, peer := connected(t, "tcp", "127.0.0.1:0")
	c := &netConn{}
	assert.Zero(t, c.backlog(), "there is no connection yet")
	c.set(conn)
	before := c.backlog()
	_, err := conn.Write(make([]byte, 10*largeMessage))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return c.backlog().acked >= before.acked+10*largeMessage }, 5*time.Minute, time.Millisecond)
	assert.False(t, c.backlog().movedSince(before), "nothing waits")

	require.NoError(t, peer.(*net.TCPConn).SetReadBuffer(64<<10))
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = conn.Write(make([]byte, 64<<20)) // until the connection is closed
	}()
	var full backlog
	require.Eventually(t, func() bool {
		was := full
		full = c.backlog()
		return full.unsent > 0 && full == was
	}, 5*time.Minute, 50*time.Millisecond, "the peer stops reading")
	assert.False(t, c.backlog().movedSince(full))
	require.Eventually(t, func() bool {
		_, err := io.CopyN(io.Discard, peer, 64<<10)
		require.NoError(t, err)
		return c.backlog().movedSince(full)
	}, 5*time.Minute, time.Millisecond, "it reads again")
	require.NoError(t, conn.Close())
	<-written
	assert.Zero(t, c.backlog(), "closed")
}
