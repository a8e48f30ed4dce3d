package balancer

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/mem"
)

// counting returns a connection that counts what arrives.
func counting(conn net.Conn, counts *netConn) net.Conn {
	counted := countingConn{conn, counts}
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return counted // what arrives is not what its descriptor reads, as with TLS
	}
	raw, err := counted.SyscallConn()
	if err != nil {
		return counted
	}
	c := &readyConn{countingConn: counted, raw: raw}
	c.read = c.readNow
	return c
}

// readyConn takes a buffer only once something has arrived. gRPC does so by itself for
// connections of package net; for other types it holds a buffer of 32 KiB while it waits.
type readyConn struct {
	countingConn
	raw  syscall.RawConn
	read func(fd uintptr) bool // readNow, as a value so that a read does not allocate one

	// The read in progress. gRPC has one at a time.
	pool mem.BufferPool
	size int
	buf  *[]byte // nil if err is not
	n    int
	err  error
}

// ReadOnReady is what gRPC looks for.
func (c *readyConn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	c.pool, c.size, c.buf = pool, size, nil
	err := c.raw.Read(c.read)
	buf, n := c.buf, c.n
	c.pool, c.buf = nil, nil
	switch {
	case err != nil: // it was closed
		err = c.opError(errors.Unwrap(err))
	case c.err != nil:
		err = c.opError(os.NewSyscallError("read", c.err))
	case n == 0:
		err = io.EOF
	default:
		c.counts.arrivedNow(n)
		return buf, n, nil
	}
	if buf != nil {
		pool.Put(buf)
	}
	return nil, 0, err
}

// readNow reads what has arrived. It returns false if nothing has and the connection has not
// ended.
func (c *readyConn) readNow(fd uintptr) bool {
	c.buf = c.pool.Get(c.size)
	var err error
	for {
		if c.n, err = syscall.Read(int(fd), *c.buf); err != syscall.EINTR {
			break
		}
	}
	c.err = err
	if err != nil {
		c.pool.Put(c.buf)
		c.buf = nil
	}
	return err != syscall.EAGAIN
}

// opError returns an error in the form in which net.Conn.Read returns it.
func (c *readyConn) opError(err error) error {
	return &net.OpError{Op: "read", Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// backlogOf asks the kernel for the backlog of a connection.
func backlogOf(conn net.Conn) (b backlog) {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return backlog{}
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return backlog{}
	}
	_ = raw.Control(func(fd uintptr) { // it fails if the connection is closed already
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			b = backlog{acked: info.Bytes_acked, unsent: info.Notsent_bytes, retransmitting: info.Retransmits > 0}
		}
	})
	return b
}
