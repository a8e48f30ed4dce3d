package balancer

import (
	"errors"
	"net"
	"syscall"
	"time"
)

const (
	// laden is how many bytes show that a connection carries more than the answers to
	// probes, a PING and their like. Answers may be behind that, in whatever buffers lie
	// between, for as long as it takes.
	laden = 1 << 10
	// gap is how long a connection that carries something may pause. Those who limit a
	// rate pass on what has gathered in up to a second.
	gap = 1500 * time.Millisecond
)

// counted is a line's network connection. What arrives on it shows that the server, or the
// network, is at work on an answer that is not complete yet.
type counted struct {
	net.Conn
	line *line
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.line.received.Add(int64(n))
	c.line.arrived.Store(time.Now().UnixNano())
	return n, err
}

// SyscallConn is for gRPC's channelz.
func (c counted) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// receiving reports whether more has arrived since the server was heard than a probe is
// answered with, and goes on arriving.
func (l *line) receiving(now time.Time) bool {
	return l.received.Load()-l.known.Load() >= laden && now.UnixNano()-l.arrived.Load() < int64(gap)
}

// backlog is what waits to be sent on a connection, by the kernel's account. It is all zero
// where the kernel gives none: on other systems than Linux, and for what is not TCP.
type backlog struct {
	acked  uint64 // bytes that have arrived at the peer
	unsent uint32 // bytes that the network does not take yet
}

// movedSince reports whether a backlog becomes less. That a peer acknowledges what it is
// sent shows nothing by itself: the kernel of a frozen one does.
func (b backlog) movedSince(was backlog) bool {
	return b.unsent > 0 && b.acked >= was.acked+laden
}

func (s *socket) backlog() backlog {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return backlog{}
	}
	return backlogOf(s.conn)
}
