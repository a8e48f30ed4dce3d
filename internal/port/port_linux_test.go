package port_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/port"
)

// A server can come and go on a reserved port; without one connections are refused.
func TestReserve(t *testing.T) {
	p, err := port.Reserve()
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Release()) }()
	refused := func() {
		t.Helper()
		_, err := net.Dial("tcp", p.Address())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
	refused()
	for range 3 {
		server, err := net.Listen("tcp", p.Address())
		require.NoError(t, err)
		client, err := net.Dial("tcp", p.Address())
		require.NoError(t, err)
		conn, err := server.Accept()
		require.NoError(t, err)
		_, err = net.Listen("tcp", p.Address())
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		require.NoError(t, conn.Close())
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
		refused()
	}
}

// No port that is reserved is given to a socket that asks for any port.
func TestReservedPortsAreNotGivenAway(t *testing.T) {
	reserved := map[string]bool{}
	for range 200 {
		p, err := port.Reserve()
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Release()) }()
		assert.False(t, reserved[p.Address()])
		reserved[p.Address()] = true
	}
	for range 2000 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		assert.False(t, reserved[l.Addr().String()])
		require.NoError(t, l.Close())
	}
}
