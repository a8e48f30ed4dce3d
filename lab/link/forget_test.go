package link_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestForget forgets one of two connections.
func TestForget(t *testing.T) {
	l, s := newLink(t)
	dial := func() (client, server *net.TCPConn) {
		nc, err := net.Dial("tcp", l.Addr())
		require.NoError(t, err)
		client = owned(t, nc)
		return client, s.accept(t)
	}
	pass := func(from, to net.Conn) {
		_, err := from.Write([]byte("ping"))
		require.NoError(t, err)
		got := make([]byte, 4)
		_, err = to.Read(got)
		require.NoError(t, err)
		assert.Equal(t, "ping", string(got))
	}
	client, server := dial()
	pass(client, server)
	pass(server, client)
	require.Len(t, l.Conns(), 1)
	forgotten := l.Conns()[0]
	require.Eventually(t, func() bool { return forgotten.Returned() == 4 }, soon, time.Millisecond, "it is counted when it was written")
	forgotten.Forget()

	other, itsServer := dial()
	for range 2 {
		_, err := client.Write([]byte("lost"))
		require.NoError(t, err)
		_, err = server.Write([]byte("lost"))
		require.NoError(t, err)
		pass(other, itsServer)
		pass(itsServer, other)
	}
	require.NoError(t, other.Close())
	l.Heal()
	for _, nc := range []net.Conn{client, server} {
		n, err := nc.Read(make([]byte, 1))
		assert.Zero(t, n, "what was lost is not delivered")
		assert.Error(t, err)
		assert.NotErrorIs(t, err, net.ErrClosed)
	}
}
