package grpcpool

import (
	"container/list"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// group is the connections of one class, and the calls that wait for one of them.
type group struct {
	class   Class
	bounds  Bounds
	idle    time.Duration // see Config.IdleTimeout
	perConn int           // see Config.StreamsPerConnection; 0 is none
	dial    func(*streamLimits) (*grpc.ClientConn, error)

	background sync.WaitGroup // goroutines; none is added once closed
	closing    chan struct{}  // closed with the group

	mu         sync.Mutex
	closed     bool
	conns      []*conn
	limit      int                // the latest that a server has set for a connection
	heardLimit bool               // one has
	waiters    list.List          // of *waiter, in the order in which they came
	inFlight   int                // calls and streams on all conns
	peak       int                // the most that were in flight or waiting since shrink looked last
	shrinker   *time.Timer        // nil while there is nothing to give up
	waiting    context.Context    // that of the watchers
	unwatch    context.CancelFunc // ends it; nil while there are none
	counters   counters
}

// conn is one gRPC channel of a group. What is not constant is guarded by the group's lock.
type conn struct {
	cc       *grpc.ClientConn
	limits   *streamLimits
	inFlight int
	draining bool // it is given no more calls, and closed after the last
	watched  bool // by a goroutine, see watch
}

// waiter is a call that waits for a connection that may carry it.
type waiter struct {
	since time.Time
	given chan grant // buffered: one grant, ever
}

// grant is what a waiter waits for: a connection, on which it is counted, or an error.
type grant struct {
	conn *conn
	err  error
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

// acquire returns the connection for a call, which is counted on it until release. It
// blocks while all connections that could carry the call are full, and others are being
// made or may not be.
func (g *group) acquire(ctx context.Context) (*conn, error) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil, ErrClosed
	}
	g.counters.calls++
	g.peak = max(g.peak, g.inFlight+g.waiters.Len()+1)
	if g.waiters.Len() == 0 {
		if c, err := g.choose(); c != nil || err != nil {
			g.take(c)
			g.mu.Unlock()
			return c, err
		}
	}
	w := &waiter{since: time.Now(), given: make(chan grant, 1)}
	place := g.waiters.PushBack(w)
	g.counters.waited++
	g.dispatch()
	g.mu.Unlock()

	select {
	case got := <-w.given:
		return got.conn, got.err
	case <-ctx.Done():
		return nil, g.leave(ctx, w, place)
	}
}

// leave takes a waiter out whose context has ended. If it was given a connection at the
// same moment, it gives that back.
func (g *group) leave(ctx context.Context, w *waiter, place *list.Element) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case got := <-w.given:
		if got.err != nil {
			return got.err
		}
		g.put(got.conn)
	default:
		g.waiters.Remove(place)
		g.counters.waitTime += time.Since(w.since)
		g.settle()
	}
	return status.Errorf(status.FromContextError(ctx.Err()).Code(),
		"grpcpool: %v while waiting for a free stream: the %s class has %d calls in flight on %d connections, of at most %d",
		ctx.Err(), g.class, g.inFlight, len(g.conns), g.bounds.Max)
}

// release ends what acquire began.
func (g *group) release(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.put(c)
}

// take counts a call on a connection. It is called with the lock held.
func (g *group) take(c *conn) {
	if c == nil {
		return
	}
	c.inFlight++
	g.inFlight++
}

// put takes a call off a connection, and lets others onto it. It is called with the lock
// held.
func (g *group) put(c *conn) {
	c.inFlight--
	g.inFlight--
	if g.closed {
		return
	}
	if c.draining && c.inFlight == 0 {
		g.remove(c)
	}
	g.dispatch()
}

// dispatch gives connections to waiters, first come, first served, and opens more if that
// helps. It is called with the lock held whenever a waiter could be helped.
func (g *group) dispatch() {
	for g.waiters.Len() > 0 && !g.closed {
		c, err := g.choose()
		if c == nil && err == nil {
			break
		}
		g.take(c)
		g.give(g.waiters.Front(), grant{c, err})
	}
	g.settle()
}

func (g *group) give(place *list.Element, what grant) {
	w := g.waiters.Remove(place).(*waiter)
	g.counters.waitTime += time.Since(w.since)
	w.given <- what
}

// heard takes note of the limit that a server has set.
func (g *group) heard(limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit, g.heardLimit = limit, true
	g.dispatch()
}

// close ends all calls and waiters. Those that wait, and those that come, get ErrClosed;
// what is in flight, what gRPC gives it for that.
func (g *group) close() {
	g.mu.Lock()
	g.closed = true
	close(g.closing)
	for g.waiters.Len() > 0 {
		g.give(g.waiters.Front(), grant{err: ErrClosed})
	}
	g.settle()
	if g.shrinker != nil {
		g.shrinker.Stop()
	}
	conns := g.conns
	g.conns = nil
	g.counters.closed += uint64(len(conns))
	g.mu.Unlock()
	for _, c := range conns {
		g.background.Go(func() { c.cc.Close() })
	}
	g.background.Wait()
}

// unavailable is the error of a call for which no connection could be made at all.
func unavailable(err error) error {
	return status.Errorf(codes.Unavailable, "grpcpool: no connection could be opened: %v", err)
}
