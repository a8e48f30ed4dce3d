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

// readSize is how much is read from a socket at once: two full TLS records.
const readSize = 32 << 10

// Conn is one connection through a link.
type Conn struct {
	ctx      context.Context // ends when both sockets are closed or about to be
	cancel   context.CancelFunc
	forward  *queue // bytes from the client to the target
	backward *queue // bytes from the target to the client
	// returned counts the bytes that were delivered to the client.
	returned  atomic.Uint64
	forgotten atomic.Bool

	mu     sync.Mutex
	client net.Conn
	target net.Conn // nil until connected
	closed bool
}

func newConn(parent context.Context, client net.Conn) *Conn {
	ctx, cancel := context.WithCancel(parent)
	return &Conn{ctx: ctx, cancel: cancel, forward: newQueue(), backward: newQueue(), client: client}
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
	if c.closed {
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
	if c.closed {
		return
	}
	c.closed = true
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

// carry runs the connection from the time when target is attached until it is over.
// The reader of the client's side runs already.
func (c *Conn) carry(forward, reverse *path) {
	var all sync.WaitGroup
	all.Go(func() { c.drain(c.forward, forward, c.target, c.backward) })
	all.Go(func() { c.drain(c.backward, reverse, c.client, c.forward) })
	var reader sync.WaitGroup
	reader.Go(func() { c.fill(c.backward, c.target) })
	all.Wait()
	c.shut(false)
	reader.Wait()
}

// fill reads from src into q until the connection ends.
func (c *Conn) fill(q *queue, src net.Conn) {
	buf := make([]byte, readSize)
	for {
		n, err := src.Read(buf)
		if n > 0 && !q.push(c.ctx.Done(), bytes.Clone(buf[:n])) {
			return
		}
		switch {
		case errors.Is(err, io.EOF):
			q.finish(finished)
			return
		case err != nil:
			q.finish(broken)
			return
		}
	}
}

// drain delivers the chunks of q to dst as the path allows. If dst is gone, the
// other side learns that through the queue back to it, so that this, too, is
// subject to the condition of its direction.
func (c *Conn) drain(q *queue, p *path, dst net.Conn, back *queue) {
	var recovered time.Time
	for {
		next, ok := q.pop(c.ctx.Done())
		if !ok || !p.transmit(c.ctx.Done(), next.arrived, &recovered, func() int { return len(q.chunks) }) {
			return
		}
		if next.end != lasting {
			c.end(next, p, dst)
			return
		}
		for rest := next.data; len(rest) > 0; {
			n, ok := p.grant(c.ctx.Done(), next.arrived, len(rest))
			if !ok {
				return
			}
			if c.forgotten.Load() {
				break
			}
			written, err := dst.Write(rest[:n])
			if q == c.backward {
				c.returned.Add(uint64(written))
			}
			if err != nil {
				back.finish(broken)
				return
			}
			rest = rest[n:]
		}
	}
}

// end delivers the end of the connection to dst.
func (c *Conn) end(last chunk, p *path, dst net.Conn) {
	if _, ok := p.grant(c.ctx.Done(), last.arrived, 0); !ok {
		return
	}
	if c.forgotten.Load() {
		return
	}
	half, ok := dst.(interface{ CloseWrite() error })
	if last.end == finished && ok {
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
