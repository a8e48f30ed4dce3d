package grpcpool

import (
	"context"

	"google.golang.org/grpc/connectivity"
)

// resizeLocked connects and watches the connections that are not connected while there are waiters, and
// only then. It is called after each change of the waiters or of the
// connections.
//
// A connection with calls need not be watched: it is full, or there would be no waiters; when it
// is lost its calls end, and each end of a call leads here. A connected one without calls has a
// server that allows none, and is watched until it is lost.
func (g *group) resizeLocked() {
	if g.waiters.Len() == 0 {
		if g.unwatch != nil {
			g.unwatch()
			g.unwatch = nil
		}
		return
	}
	for _, c := range g.conns {
		if !c.watched && !c.carries() {
			g.watchLocked(c)
		}
	}
}

// carries reports whether a connection is connected and has calls.
func (c *conn) carries() bool {
	return c.current() > 0 && c.stateLocked() == connectivity.Ready
}

// watchLocked serves waiters when the state of a connection changes, until the connection carries calls
// or there are no waiters.
func (g *group) watchLocked(c *conn) {
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
			g.dispatchLocked()
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
			g.resizeLocked()
		}
	})
}
