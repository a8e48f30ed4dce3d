package fakeetcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/net/http2"
)

// errConnBroken is the error of a wait for a response on a broken connection.
var errConnBroken = errors.New("fakeetcd: the connection is broken")

// sent is how much of one stream's response the client's transport has read.
type sent struct {
	headers int // frames
	data    int // bytes in DATA frames
}

// conn is a member's end of a connection. When Write returns, the client's
// transport has received the bytes, because a pipe has no buffer.
type conn struct {
	net.Conn
	member *Member
	number int // of the dial, from 1
	closed chan struct{}

	// received is what arrived while the member was frozen, of the goroutine that reads.
	received bytes.Buffer

	// writeMu is held while writing.
	writeMu sync.Mutex

	// mu guards the rest.
	mu       sync.Mutex
	in, out  frameScanner
	opened   []uint32        // streams that no call has claimed yet, in order
	progress map[uint32]sent // of the streams whose handler runs
	moved    chan struct{}   // closed and replaced when progress changes
	injected []byte          // frames to write after the current frame
}

func newConn(m *Member, number int, pipe net.Conn) *conn {
	return &conn{
		Conn:     pipe,
		member:   m,
		number:   number,
		closed:   make(chan struct{}),
		in:       frameScanner{skip: len(http2.ClientPreface)},
		progress: make(map[uint32]sent),
		moved:    make(chan struct{}),
	}
}

// peerAddr is the client's address as a member sees it. It links a call's context
// to the connection.
type peerAddr struct{ conn *conn }

func (a peerAddr) Network() string { return "pipe" }
func (a peerAddr) String() string  { return fmt.Sprintf("client-%d", a.conn.number) }

// RemoteAddr returns the client's address.
func (c *conn) RemoteAddr() net.Addr { return peerAddr{c} }

// LocalAddr returns the member's address.
func (c *conn) LocalAddr() net.Addr { return addr(c.member.addr) }

// Close closes both ends. Unread data is lost.
func (c *conn) Close() error {
	c.member.cluster.mu.Lock()
	defer c.member.cluster.mu.Unlock()
	if _, open := c.member.conns[c]; !open {
		return nil
	}
	delete(c.member.conns, c)
	close(c.closed)
	return c.Conn.Close()
}

// Read records the streams that the client opens.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.receive(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in.feed(p[:n], func(f http2.FrameHeader) {
		if f.Type == http2.FrameHeaders {
			c.opened = append(c.opened, f.StreamID)
		}
	})
	return n, err
}

// Write records how much of each response was delivered.
func (c *conn) Write(p []byte) (int, error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	n, err := c.writeLocked(p)
	if err != nil {
		return n, err
	}
	return n, c.writeInjectedLocked()
}

func (c *conn) writeLocked(p []byte) (int, error) {
	c.awaitAwake()
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.feed(p[:n], func(f http2.FrameHeader) {
		s, served := c.progress[f.StreamID]
		switch {
		case !served:
			return
		case f.Type == http2.FrameHeaders:
			s.headers++
		case f.Type == http2.FrameData:
			s.data += int(f.Length)
		}
		c.progress[f.StreamID] = s
	})
	close(c.moved)
	c.moved = make(chan struct{})
	return n, err
}

// writeInjectedLocked writes the injected frames, unless a frame is partly written.
// Then the Write that completes that frame writes them.
func (c *conn) writeInjectedLocked() error {
	c.mu.Lock()
	if !c.out.between() || len(c.injected) == 0 {
		c.mu.Unlock()
		return nil
	}
	frames := c.injected
	c.injected = nil
	c.mu.Unlock()
	_, err := c.writeLocked(frames)
	return err
}

// inject writes a frame without the member's gRPC server.
func (c *conn) inject(frame []byte) {
	c.mu.Lock()
	c.injected = append(c.injected, frame...)
	c.mu.Unlock()
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	// On an error the connection is closed, and the frame has no effect.
	_ = c.writeInjectedLocked()
}

// nextStream returns the stream of the call whose headers were just handled. gRPC
// handles them in the order in which they are read.
func (c *conn) nextStream() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.opened) == 0 {
		return 0
	}
	stream := c.opened[0]
	c.opened = c.opened[1:]
	c.progress[stream] = sent{}
	return stream
}

// release forgets a stream whose handler returns.
func (c *conn) release(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.progress, stream)
}

// wait blocks until the client's transport has read want of the stream's response.
func (c *conn) wait(ctx context.Context, stream uint32, want sent) error {
	for {
		c.mu.Lock()
		got, moved := c.progress[stream], c.moved
		c.mu.Unlock()
		if got.headers >= want.headers && got.data >= want.data {
			return nil
		}
		select {
		case <-moved:
		case <-c.closed:
			return errConnBroken
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
