package fakeetcd

import (
	"time"

	"github.com/quorate/quorate/internal/pause"
)

// Freeze makes the member send nothing and read nothing until Continue, as a process after SIGSTOP: its
// connections stay open, and new ones are accepted. Calls that it has begun are executed. A second Freeze does
// nothing.
func (m *Member) Freeze() {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	if pause.Closed(m.awake) {
		m.awake = make(chan struct{})
	}
}

// Continue makes a frozen member go on. Otherwise it does nothing.
func (m *Member) Continue() {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	if !pause.Closed(m.awake) {
		close(m.awake)
	}
}

// awakened returns a channel that is closed when the member goes on, or already if it is not frozen.
func (m *Member) awakened() <-chan struct{} {
	return locked(m.cluster, func() <-chan struct{} { return m.awake })
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
	if pause.Closed(c.member.awakened()) || pause.Closed(c.closed) {
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
