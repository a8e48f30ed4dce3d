package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// readSize is how much is read from a socket at once: two full TLS records.
	readSize = 32 << 10
	// maxQueued is how many chunks one direction of one connection may hold back. With
	// whole chunks that is 16 MiB: what a sender can have under way on a path of 1 GB/s
	// and 16 ms, and more than Linux lets a send buffer grow to by default (4 MiB).
	maxQueued = 512
)

// chunk is a run of bytes and the time of its arrival, or the end of the connection.
type chunk struct {
	data    []byte
	arrived time.Time
	end     error // io.EOF if the peer sent FIN, another one if it sent RST or is gone
}

// Conn is one connection through a link.
type Conn struct {
	ctx    context.Context // ends when both sockets are closed or about to be
	cancel context.CancelFunc
	// returned counts the bytes that were delivered to the client.
	returned  atomic.Uint64
	forgotten atomic.Bool

	mu     sync.Mutex
	client net.Conn
	target net.Conn // nil until connected
}

// Forget makes the connection accept bytes and deliver none, and no end either, like a NAT
// that has lost its entry. The target does not notice. New connections are not affected;
// [Link.Heal] resets the connection.
func (c *Conn) Forget() { c.forgotten.Store(true) }

// Returned is the number of bytes that were delivered to the side that dialled.
func (c *Conn) Returned() uint64 { return c.returned.Load() }

// attach adds the target's side. It returns false, and closes target, when the
// connection is over already.
func (c *Conn) attach(target net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		reset(target)
		return false
	}
	c.target = target
	return true
}

// shut ends the connection on both sides, with RST when abort is true and with FIN
// otherwise.
func (c *Conn) shut(abort bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel()
	for _, side := range []net.Conn{c.client, c.target} {
		switch {
		case side == nil:
		case abort:
			reset(side)
		default:
			_ = side.Close()
		}
	}
}

// carry runs the connection until it is over. It returns true if dial, which connects to the target, fails.
func (c *Conn) carry(forward, reverse *path, dial func() (net.Conn, error)) (refused bool) {
	sent, answered := make(chan chunk, maxQueued), make(chan chunk, maxQueued)
	var readers, writers sync.WaitGroup
	readers.Go(func() { c.fill(sent, forward, c.client) })
	defer readers.Wait()
	target, err := dial()
	if err != nil {
		refused = c.ctx.Err() == nil
		c.shut(true)
		return refused
	}
	if !c.attach(target) {
		return false
	}
	readers.Go(func() { c.fill(answered, reverse, target) })
	writers.Go(func() { c.drain(sent, forward, target, nil) })
	writers.Go(func() { c.drain(answered, reverse, c.client, &c.returned) })
	writers.Wait()
	c.shut(false)
	return false
}

// fill reads from src into q until the connection ends.
func (c *Conn) fill(q chan<- chunk, p *path, src net.Conn) {
	buf := make([]byte, readSize)
	for {
		n, err := src.Read(buf)
		if n > 0 && !c.push(q, chunk{data: bytes.Clone(buf[:n]), arrived: p.arrival()}) {
			return
		}
		if err != nil {
			c.push(q, chunk{arrived: p.arrival(), end: err})
			return
		}
	}
}

// push adds a chunk when there is room for it, unless the connection ends first.
func (c *Conn) push(q chan<- chunk, next chunk) bool {
	select {
	case q <- next:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// drain delivers the chunks of q to dst as the path allows, and counts their bytes. If dst is gone, its reader notices.
func (c *Conn) drain(q <-chan chunk, p *path, dst net.Conn, count *atomic.Uint64) {
	for {
		var next chunk
		select {
		case next = <-q:
		case <-c.ctx.Done():
			return
		}
		if !p.await(c.ctx.Done(), next.arrived) {
			return
		}
		if c.forgotten.Load() {
			continue
		}
		if next.end != nil {
			c.deliverEnd(next.end, dst)
			return
		}
		written, err := dst.Write(next.data)
		if count != nil {
			count.Add(uint64(written))
		}
		if err != nil {
			return
		}
	}
}

// deliverEnd ends the connection for dst as it was ended on the other side.
func (c *Conn) deliverEnd(end error, dst net.Conn) {
	half, ok := dst.(interface{ CloseWrite() error })
	if ok && errors.Is(end, io.EOF) {
		_ = half.CloseWrite() // if the side is gone, its reader notices
		return
	}
	c.shut(true)
}

// reset closes a connection so that its peer sees RST rather than FIN.
func reset(nc net.Conn) {
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = nc.Close()
}
