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

// A connection is receiving while a large message arrives, until it is complete or pauses.
func TestReceiving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, peer := net.Pipe()
		defer func() { assert.NoError(t, conn.Close()) }()
		defer func() { assert.NoError(t, peer.Close()) }()
		c := &netConn{}
		arrive := func(n int) {
			go func() { _, _ = peer.Write(make([]byte, n)) }()
			_, err := io.ReadFull(countingConn{conn, c}, make([]byte, n))
			require.NoError(t, err)
		}
		c.complete.Store(c.received.Load())
		arrive(largeMessage - 1)
		assert.False(t, c.receiving(time.Now()), "the answer to a probe is as large")
		arrive(1)
		assert.True(t, c.receiving(time.Now()))
		time.Sleep(transferPause - 1)
		assert.True(t, c.receiving(time.Now()))
		time.Sleep(time.Nanosecond)
		assert.False(t, c.receiving(time.Now()), "a long pause")
		arrive(1)
		assert.True(t, c.receiving(time.Now()))
		c.complete.Store(c.received.Load())
		assert.False(t, c.receiving(time.Now()), "the message is complete")
	})
}

func TestConnectionIsClosedOnce(t *testing.T) {
	conn, peer := net.Pipe()
	defer func() { assert.NoError(t, peer.Close()) }()
	c := &netConn{}
	assert.False(t, c.known())
	assert.False(t, c.close())
	c.set(conn)
	assert.True(t, c.known())
	assert.Zero(t, c.backlog(), "it is not TCP")
	assert.True(t, c.close())
	_, err := conn.Write([]byte("x"))
	assert.ErrorIs(t, err, io.ErrClosedPipe)
	assert.False(t, c.close())
}

// A server that receives a large message sends window updates and answers to PINGs.
func TestControlFramesAreNoMessage(t *testing.T) {
	c := &netConn{}
	for range 1000 {
		c.arrivedNow(controlFrames - 1)
	}
	assert.False(t, c.receiving(time.Now()))
	c.arrivedNow(largeMessage)
	assert.True(t, c.receiving(time.Now()))
}
