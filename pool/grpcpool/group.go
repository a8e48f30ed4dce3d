package grpcpool

import (
	"container/list"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// group manages the connections of one class, and the calls that wait for one.
type group struct {
	class   Class
	bounds  Bounds
	idle    time.Duration // see Config.IdleTimeout
	perConn int           // see Config.StreamsPerConnection; 0 is none
	dial    func(*streamLimits) (*grpc.ClientConn, error)

	background sync.WaitGroup // goroutines; none is added after close
	closing    chan struct{}  // closed with the group

	mu         sync.Mutex
	closed     bool
	conns      []*conn
	limit      int         // the latest that a server reported
	limitKnown bool        // a server reported one
	waiters    list.List   // elements are *waiter, FIFO
	inFlight   int         // calls and streams on all conns
	peak       int         // the maximum in flight or waiting since the last shrink
	shrinker   *time.Timer // nil while no connection is surplus
	counts     ClassStats  // what is counted; the other fields are zero
}

// conn is one gRPC channel of a group. Its variable fields are guarded by the group's lock.
type conn struct {
	cc         *grpc.ClientConn
	limits     *streamLimits
	inFlight   int
	left       int  // how many of inFlight are on network connections that are lost or draining
	generation int  // how often its network connections were lost or drained
	draining   bool // it gets no more calls, and is closed after the last one
}

// current returns the calls in flight that count against the limit of new calls.
func (c *conn) current() int { return c.inFlight - c.left }

// catchUpLocked records that network connections were lost or drain. The calls in flight stay on them;
// new calls use another one.
func (c *conn) catchUpLocked() {
	if now := int(c.limits.generation.Load()); now != c.generation {
		c.generation, c.left = now, c.inFlight
	}
}

// place is where a call is counted: a connection and its generation when the call began.
type place struct {
	conn       *conn
	generation int
}

// waiter is a call that waits for a connection.
type waiter struct {
	since time.Time
	given chan grant // buffered: receives one grant
}

// grant is the result of waiting: a connection, on which the call is counted, or an error.
type grant struct {
	place place
	err   error
}

func newGroup(class Class, config Config, dial func(*streamLimits) (*grpc.ClientConn, error)) *group {
	return &group{
		class:   class,
		bounds:  config.bounds()[class],
		idle:    config.IdleTimeout,
		perConn: config.StreamsPerConnection,
		dial:    dial,
		closing: make(chan struct{}),
	}
}

// acquire returns the place of a call, which is counted on its connection until release. It blocks
// while all connections that could carry the call are full, and others are connecting or the class
// has its maximum.
func (g *group) acquire(ctx context.Context) (place, error) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return place{}, ErrClosed
	}
	g.counts.Calls++
	if g.waiters.Len() == 0 {
		if c, err := g.chooseLocked(); c != nil || err != nil {
			got := g.takeLocked(c)
			g.notePeakLocked()
			g.mu.Unlock()
			return got, err
		}
	}
	w := &waiter{since: time.Now(), given: make(chan grant, 1)}
	queued := g.waiters.PushBack(w)
	g.notePeakLocked()
	g.counts.Waited++
	g.dispatchLocked()
	g.mu.Unlock()

	select {
	case got := <-w.given:
		return got.place, got.err
	case <-ctx.Done():
		return place{}, g.leave(ctx, w, queued)
	}
}

// notePeakLocked records the number of calls for the peak. It is called after chooseLocked, which may
// reset the peak.
func (g *group) notePeakLocked() { g.peak = max(g.peak, g.inFlight+g.waiters.Len()) }

// leave removes a waiter whose context has ended, and releases the connection if it was granted
// one at the same moment.
func (g *group) leave(ctx context.Context, w *waiter, queued *list.Element) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case got := <-w.given:
		if got.err != nil {
			return got.err
		}
		g.putLocked(got.place)
	default:
		g.waiters.Remove(queued)
		g.counts.WaitTime += time.Since(w.since)
	}
	return status.Errorf(status.FromContextError(ctx.Err()).Code(),
		"grpcpool: %v while waiting for a free stream: the %s class has %d calls in flight on %d connections, of at most %d",
		ctx.Err(), g.class, g.inFlight, len(g.conns), g.bounds.Max)
}

// release ends the place of a call.
func (g *group) release(p place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.putLocked(p)
}

// takeLocked counts a call on a connection, if there is one.
func (g *group) takeLocked(c *conn) place {
	if c == nil {
		return place{}
	}
	c.inFlight++
	g.inFlight++
	return place{c, c.generation}
}

// putLocked removes a call from a connection, and serves waiters.
func (g *group) putLocked(p place) {
	c := p.conn
	c.inFlight--
	g.inFlight--
	if p.generation < c.generation {
		c.left--
	}
	if g.closed {
		return
	}
	if c.draining && c.inFlight == 0 {
		g.removeLocked(c)
	}
	g.dispatchLocked()
}

// dispatchLocked serves waiters in FIFO order, and opens and connects connections if that helps. It is
// called whenever a waiter may be served.
func (g *group) dispatchLocked() {
	for g.waiters.Len() > 0 && !g.closed {
		c, err := g.chooseLocked()
		if c == nil && err == nil {
			g.connectLocked()
			return
		}
		g.giveLocked(g.waiters.Front(), grant{g.takeLocked(c), err})
	}
}

func (g *group) giveLocked(queued *list.Element, what grant) {
	w := g.waiters.Remove(queued).(*waiter)
	g.counts.WaitTime += time.Since(w.since)
	w.given <- what
}

// limitChanged records the limit that a server reported.
func (g *group) limitChanged(limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit, g.limitKnown = limit, true
	g.dispatchLocked()
}

// leaves is called when the network connection of c is lost or drains after a GOAWAY.
func (g *group) leaves(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.catchUpLocked()
	g.dispatchLocked()
}

// connectLocked connects the channels that are idle, in the background.
func (g *group) connectLocked() {
	for _, c := range g.conns {
		if c.stateLocked() == connectivity.Idle && !c.draining {
			g.background.Go(c.cc.Connect)
		}
	}
}

// watch serves waiters whenever the state of a connection changes, until the connection is closed.
func (g *group) watch(c *conn) {
	for state := c.cc.GetState(); state != connectivity.Shutdown; state = c.cc.GetState() {
		g.mu.Lock()
		g.dispatchLocked()
		g.mu.Unlock()
		c.cc.WaitForStateChange(context.Background(), state)
	}
}

// used reports whether the class has connections.
func (g *group) used() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns) > 0
}

// close ends all calls and waiters. Waiting and later calls get ErrClosed; those in flight get
// gRPC's error.
func (g *group) close() {
	g.mu.Lock()
	g.closed = true
	close(g.closing)
	for g.waiters.Len() > 0 {
		g.giveLocked(g.waiters.Front(), grant{err: ErrClosed})
	}
	if g.shrinker != nil {
		g.shrinker.Stop()
	}
	conns := g.conns
	g.conns = nil
	g.counts.Closed += uint64(len(conns))
	g.mu.Unlock()
	for _, c := range conns {
		g.background.Go(func() { c.cc.Close() })
	}
	g.background.Wait()
}

// unavailable is the error of a call if no connection could be opened.
func unavailable(err error) error {
	return status.Errorf(codes.Unavailable, "grpcpool: no connection could be opened: %v", err)
}
