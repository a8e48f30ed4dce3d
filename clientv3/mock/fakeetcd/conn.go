package fakeetcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http2"
)

var errUnknownAddress = errors.New("fakeetcd: no member of the cluster has this address")

type addr string

func (a addr) Network() string { return "pipe" }
func (a addr) String() string  { return string(a) }

// listener passes the members' ends of new connections to a gRPC server.
type listener struct {
	addr   addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept fail.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns the member's address.
func (l *listener) Addr() net.Addr { return l.addr }

type clientConn struct {
	net.Conn
	remote addr
}

// RemoteAddr returns the member's address.
func (c clientConn) RemoteAddr() net.Addr { return c.remote }

// DialContext connects to the member with the given address, as listed by
// Member.Addr. DialOptions passes it to gRPC. An unknown address fails like an
// unknown host name, a stopped member with syscall.ECONNREFUSED.
func (c *Cluster) DialContext(ctx context.Context, address string) (net.Conn, error) {
	m := c.memberAt(address)
	if m == nil {
		return nil, dialError(address, errUnknownAddress)
	}
	c.mu.Lock()
	m.dials++
	number, hook := m.dials, c.onDial
	c.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, m); err != nil {
			return nil, dialError(address, err)
		}
	}
	server, client := net.Pipe()
	sc, err := m.admit(number, server)
	if err != nil {
		return nil, dialError(address, err)
	}
	select {
	case m.listener.conns <- sc:
		return clientConn{client, addr(m.addr)}, nil
	case <-sc.closed:
		err = syscall.ECONNREFUSED
	case <-m.listener.closed:
		err = syscall.ECONNREFUSED
	case <-ctx.Done():
		err = ctx.Err()
	}
	// Closing a pipe cannot fail.
	_ = sc.Close()
	return nil, dialError(address, err)
}

func dialError(address string, err error) error {
	return &net.OpError{Op: "dial", Net: "pipe", Addr: addr(address), Err: err}
}

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

const frameHeaderSize = 9 // RFC 9113, section 4.1

// frameScanner follows the frames in one direction of a connection.
type frameScanner struct {
	skip    int    // bytes before the first frame
	partial []byte // of the frame that is not complete
}

// feed consumes the next bytes and calls done for each completed frame.
func (s *frameScanner) feed(p []byte, done func(http2.FrameHeader)) {
	n := min(s.skip, len(p))
	s.skip -= n
	s.partial = append(s.partial, p[n:]...)
	for {
		h, err := http2.ReadFrameHeader(bytes.NewReader(s.partial))
		end := frameHeaderSize + int(h.Length)
		if err != nil || len(s.partial) < end {
			return
		}
		s.partial = s.partial[end:]
		done(h)
	}
}

// between reports whether the last byte fed ended a frame.
func (s *frameScanner) between() bool { return len(s.partial) == 0 && s.skip == 0 }

func resetFrame(stream uint32, code ResetCode) []byte {
	var frame bytes.Buffer
	_ = http2.NewFramer(&frame, nil).WriteRSTStream(stream, http2.ErrCode(code)) // a buffer takes all
	return frame.Bytes()
}

// Freeze makes the member send nothing and read nothing until Continue, as a process after SIGSTOP: its
// connections stay open, and new ones are accepted. Calls that it has begun are executed. A second Freeze does
// nothing.
func (m *Member) Freeze() {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	if isClosed(m.awake) {
		m.awake = make(chan struct{})
	}
}

// Continue makes a frozen member go on. Otherwise it does nothing.
func (m *Member) Continue() {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	if !isClosed(m.awake) {
		close(m.awake)
	}
}

// awakened returns a channel that is closed when the member goes on, or already if it is not frozen.
func (m *Member) awakened() <-chan struct{} {
	return locked(m.cluster, func() <-chan struct{} { return m.awake })
}

// isClosed is pause.Closed: functions of that package count as the client's in what an operation costs.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// awaitAwake returns when the member is not frozen, or the connection is closed.
func (c *conn) awaitAwake() {
	select {
	case <-c.member.awakened():
	case <-c.closed:
	}
}

// receive reads what the client sends, and while the member is frozen keeps it until it goes on: the client's
// writes do not block, as they do not with the buffers of a kernel.
func (c *conn) receive(p []byte) (int, error) {
	if c.received.Len() > 0 {
		return c.received.Read(p)
	}
	n, err := c.Conn.Read(p)
	if isClosed(c.member.awakened()) || isClosed(c.closed) {
		return n, err
	}
	c.received.Write(p[:n])
	c.keep()
	return c.receive(p)
}

// keep reads until the member goes on. What ended the reading ends the next Read too.
func (c *conn) keep() {
	awake := make(chan struct{})
	go func() {
		defer close(awake)
		c.awaitAwake()
		// It interrupts ReadFrom. A pipe has deadlines.
		_ = c.SetReadDeadline(time.Now())
	}()
	_, _ = c.received.ReadFrom(c.Conn)
	<-awake
	_ = c.SetReadDeadline(time.Time{})
}
