package balancer

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A line that a large message arrives on is receiving, until it is complete or comes to a
// halt.
func TestReceiving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, peer := net.Pipe()
		defer func() { assert.NoError(t, conn.Close()) }()
		defer func() { assert.NoError(t, peer.Close()) }()
		l := &line{}
		arrive := func(n int) {
			go func() { _, _ = peer.Write(make([]byte, n)) }()
			_, err := io.ReadFull(counted{conn, l}, make([]byte, n))
			require.NoError(t, err)
		}
		l.hear(time.Now())
		arrive(laden - 1)
		assert.False(t, l.receiving(time.Now()), "the answer to a probe is as large")
		arrive(1)
		assert.True(t, l.receiving(time.Now()))
		time.Sleep(gap - 1)
		assert.True(t, l.receiving(time.Now()))
		time.Sleep(time.Nanosecond)
		assert.False(t, l.receiving(time.Now()), "nothing has come for long")
		arrive(1)
		assert.True(t, l.receiving(time.Now()))
		l.hear(time.Now())
		assert.False(t, l.receiving(time.Now()), "the message is complete")
	})
}

func TestCountedConnectionsTellTheirSocket(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { assert.NoError(t, listener.Close()) }()
	tcp, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer func() { assert.NoError(t, tcp.Close()) }()
	_, err = counted{tcp, &line{}}.SyscallConn()
	require.NoError(t, err)
	piped, peer := net.Pipe()
	defer func() { assert.NoError(t, peer.Close()) }()
	_, err = counted{piped, &line{}}.SyscallConn()
	require.Error(t, err)
	require.NoError(t, piped.Close())
}
