// Package link is a TCP proxy in user space that stands for one network link and
// fails on demand.
//
// A [Link] takes connections of one dialling side and carries them to one target.
// Each byte direction has a [Condition], which may change at any time and then
// applies to connections that exist as well as to new ones: open, cut, blackholed,
// delayed, throttled, losing segments. No privileges are needed.
package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	accepted atomic.Uint64
	refused  atomic.Uint64

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	target string
	conns  map[*Conn]struct{}
	closed bool
}

// New returns a link to the TCP address target that takes connections through
// Go. It must be closed.
func New(target string) *Link {
	ctx, cancel := context.WithCancel(context.Background())
	return &Link{
		forward: newPath(),
		reverse: newPath(),
		ctx:     ctx,
		cancel:  cancel,
		target:  target,
		conns:   make(map[*Conn]struct{}),
	}
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

// Addr returns the host:port on which the link takes connections, "" for a link
// made by New.
func (l *Link) Addr() string {
	if l.listener == nil {
		return ""
	}
	return l.listener.Addr().String()
}

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
	p := l.forward
	if d == Reverse {
		p = l.reverse
	}
	c, _ := p.get()
	return c
}

// Cut resets every connection, and new ones until the link is healed.
func (l *Link) Cut() {
	l.update(Both, func(c *Condition) { c.State = Cut })
}

// Break resets every connection. The conditions of the link stay, and new connections are taken as before.
func (l *Link) Break() {
	for _, c := range l.Conns() {
		c.shut(true)
	}
}

// Blackhole accepts and withholds the bytes of the directions of d from now on. See
// Blackholed.
func (l *Link) Blackhole(d Direction) {
	l.update(d, func(c *Condition) { c.State = Blackholed })
}

// Delay adds latency to every byte of the directions of d, and keeps their other
// settings. Zero or less ends it.
func (l *Link) Delay(d Direction, latency time.Duration) {
	l.update(d, func(c *Condition) { c.Delay = max(latency, 0) })
}

// Throttle limits the directions of d to bytesPerSecond each, all connections
// together, and keeps their other settings. Zero or less ends it.
func (l *Link) Throttle(d Direction, bytesPerSecond int) {
	l.update(d, func(c *Condition) { c.Rate = max(bytesPerSecond, 0) })
}

// Lose makes each direction of d lose a share of the segments, and keeps its other
// settings. See Condition.Loss.
func (l *Link) Lose(d Direction, share float64) {
	l.update(d, func(c *Condition) { c.Loss = share })
}

// Heal ends the conditions of both directions. What a blackhole withheld is delivered
// now, and connections that were forgotten are reset.
func (l *Link) Heal() {
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
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, side := range []struct {
		direction Direction
		path      *path
	}{{Forward, l.forward}, {Reverse, l.reverse}} {
		if d&side.direction != 0 {
			c, _ := side.path.get()
			change(&c)
			side.path.set(c)
		}
	}
	if l.cut() {
		for c := range l.conns {
			c.shut(true)
		}
	}
}

func (l *Link) cut() bool {
	forward, _ := l.forward.get()
	reverse, _ := l.reverse.get()
	return forward.State == Cut || reverse.State == Cut
}

// Stats returns the counts of the link.
func (l *Link) Stats() Stats {
	return Stats{Accepted: l.accepted.Load(), Refused: l.refused.Load(), Active: len(l.Conns())}
}

// Close frees the port, resets every connection and returns when all goroutines of
// the link have ended. A second Close has no effect. It returns the error of
// closing the listener, if any.
func (l *Link) Close() error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	for c := range l.conns {
		c.shut(true)
	}
	l.mu.Unlock()
	l.cancel()
	var err error
	if first && l.listener != nil {
		err = l.listener.Close()
	}
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
			_ = pause.For(l.ctx, acceptRetry) // a closed link has no listener
		}
	}
}

// Go carries client, a connection that the caller has accepted and gives away, to
// the target in a goroutine of the link. On a link that is cut or closed, client is
// reset. The target is dialled when neither direction is blackholed.
func (l *Link) Go(client net.Conn) {
	c, ok := l.admit(client)
	if !ok {
		l.refused.Add(1)
		reset(client)
		return
	}
	go func() {
		defer l.work.Done()
		defer l.release(c)
		l.serve(c)
	}()
}

// admit registers a connection, and counts it among the work that Close waits for,
// unless the link takes none.
func (l *Link) admit(client net.Conn) (*Conn, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.cut() {
		return nil, false
	}
	l.accepted.Add(1)
	l.work.Add(1)
	c := newConn(l.ctx, client)
	l.conns[c] = struct{}{}
	return c, true
}

func (l *Link) release(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

func (l *Link) serve(c *Conn) {
	var reader sync.WaitGroup
	reader.Go(func() { c.fill(c.forward, c.client) })
	defer reader.Wait()
	target, err := l.dial(c)
	if err != nil {
		if c.ctx.Err() == nil {
			l.refused.Add(1)
		}
		c.shut(true)
		return
	}
	if c.attach(target) {
		c.carry(l.forward, l.reverse)
	}
}

var errNoTarget = errors.New("link: nothing listens at the target")

// dial connects to the target once a handshake could pass, that is with neither
// direction blackholed.
func (l *Link) dial(c *Conn) (net.Conn, error) {
	if !l.forward.awaitOpen(c.ctx.Done()) || !l.reverse.awaitOpen(c.ctx.Done()) {
		return nil, net.ErrClosed
	}
	address := l.Target()
	if address == "" {
		return nil, errNoTarget
	}
	var dialer net.Dialer
	return dialer.DialContext(c.ctx, "tcp", address)
}
