package fakeetcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// startConn returns a member's connection and the client's end of it.
func startConn(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	cluster := start(t, 1)
	server, client := net.Pipe()
	c, err := cluster.Member(0).admit(1, server)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c, client
}

// TestInjectSplitsNoFrame injects a frame while another is half written, and between two frames.
func TestInjectSplitsNoFrame(t *testing.T) {
	c, client := startConn(t)
	data := []byte{0, 0, 2, byte(http2.FrameData), 0, 0, 0, 0, 1, 'h', 'i'}
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
	c.progress[1] = sent{}
	waiting := make(chan error, 1)
	go func() { waiting <- c.wait(within(t), 1, sent{headers: 1, data: 2}) }()
	go func() {
		_, err := c.Write([]byte{0, 0, 0, byte(http2.FrameHeaders), 0, 0, 0, 0, 1, 0, 0, 2, byte(http2.FrameData), 0, 0, 0, 0, 1, 'h', 'i'})
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

// TestFrameScanner feeds the same bytes in pieces of every size.
func TestFrameScanner(t *testing.T) {
	wire := bytes.NewBufferString(http2.ClientPreface)
	framer := http2.NewFramer(wire, nil)
	require.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("abc")}))
	require.NoError(t, framer.WriteSettings())
	require.NoError(t, framer.WriteData(1<<31-1, false, make([]byte, 300)))
	wire.Write(resetFrame(5, ResetCancel))
	want := []string{"HEADERS 3 1", "SETTINGS 0 0", "DATA 300 2147483647", "RST_STREAM 4 5"}
	for size := 1; size <= wire.Len(); size++ {
		scanner := frameScanner{skip: len(http2.ClientPreface)}
		var got []string
		for part := range slices.Chunk(wire.Bytes(), size) {
			scanner.feed(part, func(f http2.FrameHeader) { got = append(got, fmt.Sprintf("%v %d %d", f.Type, f.Length, f.StreamID)) })
		}
		assert.Equal(t, want, got, "pieces of %d bytes", size)
		assert.True(t, scanner.between())
		scanner.feed([]byte{0}, nil)
		assert.False(t, scanner.between())
	}
}

// A connection remembers nothing of calls that have ended.
func TestEndedCallsAreForgotten(t *testing.T) {
	cluster, kv := startKV(t)
	for range 3 {
		_, err := kv.Put(within(t), put("k", "v"))
		require.NoError(t, err)
	}
	for c := range cluster.Member(0).conns {
		c.mu.Lock()
		defer c.mu.Unlock()
		assert.Empty(t, c.progress)
	}
}

func TestStartChecksTheNumberOfMembers(t *testing.T) {
	for _, n := range []int{-1, 0, maxMembers + 1} {
		_, err := Start(n)
		require.ErrorContains(t, err, "ask for 1 to 1000", n)
	}
}

func TestAddresses(t *testing.T) {
	cluster := start(t, 2)
	assert.Equal(t, []string{"http://member-0.fakeetcd:2379", "http://member-1.fakeetcd:2379"}, cluster.Endpoints())
	conn, err := cluster.DialContext(within(t), cluster.Member(0).Addr())
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close()) }()
	assert.Equal(t, cluster.Member(0).Addr(), conn.RemoteAddr().String())
	_, err = cluster.DialContext(within(t), "elsewhere:2379")
	require.ErrorContains(t, err, "dial pipe elsewhere:2379: fakeetcd: no member of the cluster has this address")
}

func TestStopAndStart(t *testing.T) {
	cluster, kv := startKV(t)
	m := cluster.Member(0)
	_, err := kv.Put(within(t), put("k", "1"))
	require.NoError(t, err)
	assert.Equal(t, 1, m.Connections())

	m.Stop()
	m.Stop()
	assert.Zero(t, m.Connections())
	_, err = cluster.DialContext(within(t), m.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = kv.Put(within(t), put("k", "2"))
	assert.Equal(t, codes.Unavailable, status.Code(err))

	m.Start()
	_, err = kv.Put(within(t), put("k", "3"), grpc.WaitForReady(true))
	require.NoError(t, err)
	assert.Equal(t, 2, cluster.PutCount("k"))
	assert.GreaterOrEqual(t, m.Dials(), 3)
}

func TestBreakConnections(t *testing.T) {
	cluster, kv := startKV(t)
	cluster.Once("Put", func(c *Call) { assert.Error(t, c.Hold(nil)) })
	done := beginPut(within(t), t, cluster, kv)
	cluster.Member(0).BreakConnections()
	assert.Equal(t, codes.Unavailable, status.Code(<-done))
	_, err := kv.Put(within(t), put("other", "v"), grpc.WaitForReady(true))
	require.NoError(t, err)
}

func TestOnDial(t *testing.T) {
	t.Run("fails", func(t *testing.T) {
		cluster, kv := startKV(t)
		cluster.OnDial(func(_ context.Context, m *Member) error {
			assert.Same(t, cluster.Member(0), m)
			return errors.New("no route")
		})
		_, err := kv.Put(within(t), put("k", "v"))
		assert.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "no route")
		cluster.OnDial(nil)
		_, err = kv.Put(within(t), put("k", "v"), grpc.WaitForReady(true))
		require.NoError(t, err)
	})
	t.Run("hangs", func(t *testing.T) {
		cluster := start(t, 1)
		ctx, cancel := context.WithCancel(within(t))
		cluster.OnDial(func(ctx context.Context, _ *Member) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		_, err := cluster.DialContext(ctx, cluster.Member(0).Addr())
		require.ErrorIs(t, err, context.Canceled)
		var opErr *net.OpError
		require.ErrorAs(t, err, &opErr)
	})
}

func TestClose(t *testing.T) {
	cluster, err := Start(2)
	require.NoError(t, err)
	kv := kvOf(t, cluster.Member(1))
	_, err = kv.Put(within(t), put("k", "v"))
	require.NoError(t, err)
	cluster.Close()
	cluster.Close()

	_, err = cluster.DialContext(within(t), cluster.Member(0).Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	cluster.Member(0).Start()
	_, err = cluster.DialContext(within(t), cluster.Member(0).Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	assert.Equal(t, "v", string(cluster.Get("k").Value), "what happened can still be asked")
}
