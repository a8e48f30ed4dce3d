package grpcpool

import (
	"context"

	"google.golang.org/grpc/connectivity"
)

// resize sees to it that the connections that are not connected are, and are watched,
// while there are waiters, and only then. It is called with the lock held, after each change
// of the waiters or of the connections.
//
// One that carries calls need not be watched. It is full, or there would be no waiters; when
// it is lost the calls on it end, and each end of a call leads here. One that is connected
// and carries none has a server that allows none, and is watched until it is lost.
func (g *group) resize() {
	if g.waiters.Len() == 0 {
		if g.unwatch != nil {
			g.unwatch()
			g.unwatch = nil
		}
		return
	}
	for _, c := range g.conns {
		if !c.watched && !c.carries() {
			g.watch(c)
		}
	}
}

// carries reports whether a connection is connected and has calls on it.
func (c *conn) carries() bool {
	return c.current() > 0 && c.state() == connectivity.Ready
}

// watch lets waiters go on when the state of a connection changes, until it carries calls or
// nobody waits. It is called with the lock held.
func (g *group) watch(c *conn) {
	if g.unwatch == nil {
		g.waiting, g.unwatch = context.WithCancel(context.Background())
	}
	ctx := g.waiting
	c.watched = true
	g.background.Go(func() {
		for state := c.cc.GetState(); ; state = c.cc.GetState() {
			if state == connectivity.Idle {
				g.connect(c)
			}
			g.mu.Lock()
			g.dispatch()
			carries := c.carries()
			g.mu.Unlock()
			if carries || state == connectivity.Shutdown || !c.cc.WaitForStateChange(ctx, state) {
				break
			}
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		c.watched = false
		if !g.closed {
			g.resize()
		}
	})
}
