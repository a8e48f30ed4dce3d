package fakeetcd

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
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

func newListener(a addr) *listener {
	return &listener{addr: a, conns: make(chan net.Conn), closed: make(chan struct{})}
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
