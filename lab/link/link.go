// Package link is a TCP proxy in user space that stands for one network link and
// fails on demand.
//
// A [Link] takes connections of one dialling side and carries them to one target.
// Each byte direction has a [Condition], which may change at any time and then
// applies to connections that exist as well as to new ones: blackholed, delayed,
// losing segments. A link may also be cut. No privileges are needed.
package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/pause"
)

// acceptRetry is the pause after an error of accept that is not the end of the
// listener (no file descriptors left).
const acceptRetry = 10 * time.Millisecond

// Link carries TCP connections to a target. Its methods may be called from several
// goroutines.
type Link struct {
	listener net.Listener // nil when connections come through Go only
	forward  *path
	reverse  *path

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	work      sync.WaitGroup
	closeOnce func() error

	mu     sync.Mutex
	target string
	conns  map[*Conn]struct{}
	stats  Stats // without Active
	cut    bool
}

// New returns a link to the TCP address target that takes connections through
// Go. It must be closed.
func New(target string) *Link {
	l := &Link{forward: newPath(), reverse: newPath(), target: target, conns: make(map[*Conn]struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.closeOnce = sync.OnceValue(l.close)
	return l
}

// Listen returns a link to the TCP address target that takes connections on a free
// port of 127.0.0.1, see Addr. The port is held until Close, whatever the condition
// of the link. It fails when no port is free.
func Listen(target string) (*Link, error) { return ListenAt("127.0.0.1:0", target) }

// ListenAt is Listen on an address of the caller's choice.
func ListenAt(address, target string) (*Link, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("link: no port to listen on: %w", err)
	}
	l := New(target)
	l.listener = listener
	l.work.Go(l.accept)
	return l, nil
}

// Addr returns the host:port on which the link takes connections. A link made by New has none.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Target returns the address that connections are carried to.
func (l *Link) Target() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.target
}

// SetTarget changes the address for new connections; existing ones stay where they
// are. With an empty target the link resets new connections, as a host does for a
// port on which nothing listens.
func (l *Link) SetTarget(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

// Condition returns the condition of one direction; for Both it is that of Forward.
func (l *Link) Condition(d Direction) Condition {
	if d == Reverse {
		return l.reverse.get()
	}
	return l.forward.get()
}

// Cut resets every connection, and new ones until the link is healed.
func (l *Link) Cut() {
	l.mu.Lock()
	l.cut = true
	l.mu.Unlock()
	l.Break()
}

// Break resets every connection. The conditions of the link stay, and new connections are taken as before.
func (l *Link) Break() {
	for _, c := range l.Conns() {
		c.shut(true)
	}
}

// Blackhole makes each direction of d accept bytes and deliver none from now on. See
// Condition.Blackholed.
func (l *Link) Blackhole(d Direction) {
	l.update(d, func(c *Condition) { c.Blackholed = true })
}

// Delay adds latency to every byte of each direction of d, and keeps its other
// settings. Zero ends it.
func (l *Link) Delay(d Direction, latency time.Duration) {
	l.update(d, func(c *Condition) { c.Delay = latency })
}

// Lose makes each direction of d lose a share of the segments, and keeps its other
// settings. See Condition.Loss.
func (l *Link) Lose(d Direction, share float64) {
	l.update(d, func(c *Condition) { c.Loss = share })
}

// Heal ends a cut and the conditions of both directions. What a blackhole kept is delivered
// now, and connections that were forgotten are reset.
func (l *Link) Heal() {
	l.mu.Lock()
	l.cut = false
	l.mu.Unlock()
	l.update(Both, func(c *Condition) { *c = Condition{} })
	for _, c := range l.Conns() {
		if c.forgotten.Load() {
			c.shut(true)
		}
	}
}

// Conns returns the connections that exist now.
func (l *Link) Conns() []*Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.conns))
}

func (l *Link) update(d Direction, change func(*Condition)) {
	if d&Forward != 0 {
		l.forward.update(change)
	}
	if d&Reverse != 0 {
		l.reverse.update(change)
	}
}

// Stats returns the counts of the link.
func (l *Link) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{Accepted: l.stats.Accepted, Refused: l.stats.Refused, Active: len(l.conns)}
}

// Close frees the port, resets every connection and returns when all goroutines of
// the link have ended. A second Close returns the same result: the error of
// closing the listener, if any.
func (l *Link) Close() error { return l.closeOnce() }

func (l *Link) close() (err error) {
	l.mu.Lock()
	l.cancel()
	l.mu.Unlock()
	if l.listener != nil {
		err = l.listener.Close()
	}
	l.Break()
	l.work.Wait()
	return err
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		switch {
		case err == nil:
			l.Go(client)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			_ = pause.For(l.ctx, acceptRetry) // the listener is closed with the link
		}
	}
}

// Go carries client, a connection that the caller has accepted and gives away, to
// the target in a goroutine of the link. On a link that is cut or closed, client is
// reset. The target is dialled when neither direction is blackholed.
func (l *Link) Go(client net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut || l.ctx.Err() != nil {
		l.stats.Refused++
		reset(client)
		return
	}
	l.stats.Accepted++
	c := &Conn{client: client}
	c.ctx, c.cancel = context.WithCancel(l.ctx)
	l.conns[c] = struct{}{}
	l.work.Go(func() { l.serve(c) })
}

func (l *Link) serve(c *Conn) {
	refused := c.carry(l.forward, l.reverse, func() (net.Conn, error) { return l.dial(c.ctx) })
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	if refused {
		l.stats.Refused++
	}
}

// dial connects to the target once a handshake could pass, that is with neither
// direction blackholed.
func (l *Link) dial(ctx context.Context) (net.Conn, error) {
	for _, p := range []*path{l.forward, l.reverse} {
		p.await(ctx.Done(), time.Time{})
	}
	address := l.Target()
	if address == "" {
		return nil, errors.New("link: nothing listens at the target")
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// Direction names the way that bytes travel over a link. Values combine with |.
type Direction uint8

const (
	// Forward is from the side that dialled to the target.
	Forward Direction = 1 << iota
	// Reverse is from the target to the side that dialled.
	Reverse
	// Both is Forward and Reverse.
	Both = Forward | Reverse
)

// Condition is what a link does to the bytes of one direction. The zero value is a
// link without faults.
type Condition struct {
	// Blackholed accepts bytes and delivers none. What was accepted is kept, in
	// order, and delivered when the direction opens again, which is what TCP's
	// retransmissions do after a partition. Ends of connections (FIN and RST) are
	// bytes in this respect: the other side does not learn of them. After 512 reads
	// per connection, of up to 32 KiB, no more bytes are accepted and the sender
	// stalls, as it does on a full send buffer.
	//
	// The sender's kernel is acknowledged by the link, not by the target. Evidence
	// that rests on missing acknowledgements (TCP keepalive, TCP_USER_TIMEOUT)
	// therefore never appears.
	Blackholed bool
	// Delay is added to the latency of every byte. It does not limit throughput, up
	// to the 512 reads per connection that may be under way at a time. Connecting
	// itself is not delayed. Zero or less is none.
	Delay time.Duration
	// Loss is the share of segments that are lost, from 0 to less than 1. A lost segment, and all
	// behind it on its connection, arrive with its retransmission: that is sent after 200 ms, and is
	// lost with the same probability; each further one follows after twice the time. What is read
	// from a socket at once counts as one segment.
	Loss float64
}

// Stats are counts since the link was made.
type Stats struct {
	// Accepted is the number of connections that were accepted, ended ones included.
	Accepted uint64
	// Refused is the number of connections that were reset without reaching the
	// target: the link was cut, or the target did not listen.
	Refused uint64
	// Active is the number of connections now.
	Active int
}

// retransmitAfter is TCP's least retransmission timeout on Linux.
const retransmitAfter = 200 * time.Millisecond

// path is one direction of a link, shared by its connections.
type path struct {
	mu        sync.Mutex
	condition Condition
	changed   chan struct{} // closed and replaced when condition changes
}

func newPath() *path { return &path{changed: make(chan struct{})} }

func (p *path) update(change func(*Condition)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.condition)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *path) get() Condition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.condition
}

// arrival returns when a segment that is sent now reaches the other end, as far as losses decide.
func (p *path) arrival() time.Time {
	at, loss := time.Now(), p.get().Loss
	for timeout := retransmitAfter; rand.Float64() < loss; timeout *= 2 {
		at = at.Add(timeout)
	}
	return at
}

// await blocks until what arrived at the given time may be delivered: a chunk, or the beginning or the end of a connection.
// It returns false when done closes first.
func (p *path) await(done <-chan struct{}, arrived time.Time) bool {
	for {
		p.mu.Lock()
		c, changed := p.condition, p.changed
		p.mu.Unlock()
		var due <-chan time.Time // never while it is blackholed
		if !c.Blackholed {
			wait := time.Until(arrived.Add(c.Delay))
			if wait <= 0 {
				return true
			}
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-changed:
		case <-done:
			return false
		}
	}
}

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
