package grpcpool_test

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/test/bufconn"
)

const (
	wireRate   = 60_000_000 // bytes per second in each direction
	wireChunk  = 16 << 10   // connections take turns, one chunk each
	wireBuffer = 8 * wireChunk
)

// wire is a link in memory to a server. Its connections share the rate of each direction.
type wire struct {
	*bufconn.Listener
	there, back pacer
}

func newWire() *wire { return &wire{Listener: bufconn.Listen(wireBuffer)} }

// dial connects over the link.
func (w *wire) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := w.DialContext(ctx)
	return &pacedConn{conn, &w.back}, err
}

// Accept returns the server's end of a connection.
func (w *wire) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	return &pacedConn{conn, &w.there}, err
}

// pacedConn reads at the rate of a direction.
type pacedConn struct {
	net.Conn
	rate *pacer
}

func (c *pacedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), wireChunk)])
	c.rate.send(n)
	return n, err
}

// pacer is the transmitter of one direction.
type pacer struct {
	mu   sync.Mutex
	free time.Time
}

// send returns when n bytes have been sent.
func (p *pacer) send(n int) {
	p.mu.Lock()
	if now := time.Now(); p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(n) * time.Second / wireRate)
	sent := p.free
	p.mu.Unlock()
	time.Sleep(time.Until(sent))
}
