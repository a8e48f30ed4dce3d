package grpcpool

import (
	"context"

	"google.golang.org/grpc/connectivity"
)

// settle sees to it that the connections that are not connected are, and are watched,
// while there are waiters, and only then. It is called with the lock held, after each change
// of the waiters or of the connections.
//
// One that is connected need not be watched. It is full, or there would be no waiters; when
// it is lost the calls on it end, and each end of a call leads here.
func (g *group) settle() {
	if g.waiters.Len() == 0 {
		if g.unwatch != nil {
			g.unwatch()
			g.unwatch = nil
		}
		return
	}
	for _, c := range g.conns {
		if !c.watched && c.cc.GetState() != connectivity.Ready {
			g.watch(c)
		}
	}
}

// watch lets waiters go on when the state of a connection changes, until it is connected or
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
				c.cc.Connect()
			}
			g.mu.Lock()
			g.dispatch()
			g.mu.Unlock()
			if state == connectivity.Ready || state == connectivity.Shutdown || !c.cc.WaitForStateChange(ctx, state) {
				break
			}
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		c.watched = false
		if !g.closed {
			g.settle()
		}
	})
}
