package balancer

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
	require.Eventually(t, func() bool { return c.backlog().acked >= before.acked+10*largeMessage }, 10*time.Second, time.Millisecond)
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
	}, 10*time.Second, 50*time.Millisecond, "the peer stops reading")
	assert.False(t, c.backlog().movedSince(full))
	require.Eventually(t, func() bool {
		_, err := io.CopyN(io.Discard, peer, 64<<10)
		require.NoError(t, err)
		return c.backlog().movedSince(full)
	}, 10*time.Second, time.Millisecond, "it reads again")
	require.NoError(t, conn.Close())
	<-written
	assert.Zero(t, c.backlog(), "closed")
}
