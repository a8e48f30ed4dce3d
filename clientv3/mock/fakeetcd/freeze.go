package fakeetcd

import (
	"bytes"
	"errors"
	"os"
	"time"
)

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
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	return m.awake
}

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

// received is what has arrived on the connection of a frozen member: the client's writes do not block, as they
// do not with the buffers of a kernel.
type received struct {
	bytes bytes.Buffer
	err   error // what comes after the bytes
}

// receive reads what the client sends, and while the member is frozen keeps it until it goes on.
func (c *conn) receive(p []byte) (int, error) {
	r := &c.received
	if r.bytes.Len() == 0 && r.err == nil {
		n, err := c.Conn.Read(p)
		if isClosed(c.member.awakened()) {
			return n, err
		}
		r.bytes.Write(p[:n])
		r.err = err
		c.keep()
	}
	if r.bytes.Len() > 0 {
		return r.bytes.Read(p)
	}
	return 0, r.err
}

// keep reads until the member goes on.
func (c *conn) keep() {
	awake := make(chan struct{})
	go func() {
		defer close(awake)
		c.awaitAwake()
		// It interrupts the Read below. A pipe has deadlines.
		_ = c.SetReadDeadline(time.Now())
	}()
	p := make([]byte, 4096)
	for r := &c.received; r.err == nil; {
		var n int
		n, r.err = c.Conn.Read(p)
		r.bytes.Write(p[:n])
	}
	<-awake
	_ = c.SetReadDeadline(time.Time{})
	if errors.Is(c.received.err, os.ErrDeadlineExceeded) {
		c.received.err = nil
	}
}
