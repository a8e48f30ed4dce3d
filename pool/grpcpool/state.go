package grpcpool

import "google.golang.org/grpc/connectivity"

// Target returns the target that [NewClient] was called with.
func (p *ClientConn) Target() string { return p.target }

// GetState returns the state of the pool, as gRPC derives that of a channel from those of its
// connections: Ready if a connection of any class is, so that a call can be sent; else Connecting
// if one is being made; else Idle if one is not connected because no call needed it; else
// TransientFailure. Connections that drain do not count. After Close it is Shutdown. It does
// not connect, see [ClientConn.Connect]; [ClientConn.Stats] has the state of each connection, and
// [ClientConn.Ready] waits.
func (p *ClientConn) GetState() connectivity.State {
	seen := make(map[connectivity.State]bool)
	for _, g := range p.groups {
		g.mu.Lock()
		for _, c := range g.conns {
			if !c.draining {
				seen[c.cc.GetState()] = true
			}
		}
		g.mu.Unlock()
	}
	for _, state := range []connectivity.State{connectivity.Ready, connectivity.Connecting, connectivity.Idle, connectivity.TransientFailure} {
		if seen[state] {
			return state
		}
	}
	return connectivity.Shutdown // Unary has a connection until Close
}

// Connect starts connecting the idle minimum connections of Unary and of each used class, and
// does not wait. Without it they connect with the first call. It does nothing after Close.
func (p *ClientConn) Connect() {
	for class, g := range p.groups {
		if Class(class) != Unary && !g.used() {
			continue
		}
		conns, err := g.openKept()
		if err != nil {
			continue // closed, or its first call gets the error
		}
		for _, c := range conns {
			g.connect(c)
		}
	}
}

func (g *group) used() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns) > 0
}
