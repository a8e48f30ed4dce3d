package kubernetes

import (
	"context"
	"net"
	"sync"
	"time"

	"k8s.io/client-go/transport"
)

// dialer tracks its connections, so that it can close them whatever their users do: if the server
// does not answer, a canceled request alone leaves its connection open.
type dialer struct {
	connect func(ctx context.Context, network, address string) (net.Conn, error)
	ctx     context.Context // ends with close
	cancel  context.CancelFunc

	mu     sync.Mutex
	conns  map[*trackedConn]struct{}
	closed bool
}

// newDialer returns a dialer that uses the configured one, if there is one.
func newDialer(own *transport.DialHolder) *dialer {
	d := &dialer{conns: make(map[*trackedConn]struct{})}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	if own != nil {
		d.connect = own.Dial
	} else {
		d.connect = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	return d
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	inner, err := d.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &trackedConn{Conn: inner, dialer: d}
	d.mu.Lock()
	closed := d.closed
	if !closed {
		d.conns[c] = struct{}{}
	}
	d.mu.Unlock()
	if closed {
		_ = inner.Close()
		return nil, errLinkClosed
	}
	return c, nil
}

// close closes all connections and cancels dials.
func (d *dialer) close() {
	d.cancel()
	d.mu.Lock()
	d.closed = true
	conns := d.conns
	d.conns = nil
	d.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close()
	}
}

// trackedConn is removed from its dialer when it is closed.
type trackedConn struct {
	net.Conn
	dialer *dialer
}

// Close closes the connection.
func (c *trackedConn) Close() error {
	c.dialer.mu.Lock()
	delete(c.dialer.conns, c)
	c.dialer.mu.Unlock()
	return c.Conn.Close()
}
