package fakeetcd

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// startConn returns a member's connection and the client's end of it.
func startConn(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	cluster := start(t, 1)
	server, client := net.Pipe()
	c, err := cluster.Member(0).admit(server)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c, client
}

// TestInjectSplitsNoFrame injects a frame while another is half written, and between two frames.
func TestInjectSplitsNoFrame(t *testing.T) {
	c, client := startConn(t)
	data := []byte{0, 0, 2, frameData, 0, 0, 0, 0, 1, 'h', 'i'}
	reset := resetFrame(1, ResetCancel)
	go func() {
		_, err := c.Write(data[:4])
		assert.NoError(t, err)
		c.inject(reset)
		_, err = c.Write(data[4:])
		assert.NoError(t, err)
		c.inject(reset)
	}()
	got := make([]byte, len(data)+2*len(reset))
	_, err := io.ReadFull(client, got)
	require.NoError(t, err)
	want := append(append(append([]byte{}, data...), reset...), reset...)
	assert.Equal(t, want, got)
}

// Wait ends when the client has read the frames, its context ends, or the connection breaks.
func TestWait(t *testing.T) {
	c, client := startConn(t)
	waiting := make(chan error, 1)
	go func() { waiting <- c.wait(within(t), 1, sent{headers: 1, data: 2}) }()
	go func() {
		_, err := c.Write([]byte{0, 0, 0, frameHeaders, 0, 0, 0, 0, 1, 0, 0, 2, frameData, 0, 0, 0, 0, 1, 'h', 'i'})
		assert.NoError(t, err)
	}()
	_, err := io.ReadFull(client, make([]byte, 19))
	require.NoError(t, err)
	assert.Empty(t, waiting, "one byte is missing")
	_, err = io.ReadFull(client, make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, <-waiting)

	ctx, cancel := context.WithCancel(within(t))
	cancel()
	require.ErrorIs(t, c.wait(ctx, 3, sent{headers: 1}), context.Canceled)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.wait(within(t), 3, sent{headers: 1}), errConnBroken)
}
