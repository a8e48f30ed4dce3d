package channel

import (
	"slices"
	"sync"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// connections are those of one grpc.ClientConn, one for each endpoint, be it
// established or not.
type connections struct {
	mu sync.Mutex
	// failing holds every endpoint's connection, and whether it could not be
	// established when that was last tried.
	failing map[*connection]bool
}

func newConnections() *connections {
	return &connections{failing: make(map[*connection]bool)}
}

// allIn reports whether conns has all connections, or all that do not fail.
// Of a client whose endpoints are being replaced, and which has none at the
// moment, nothing is known.
func (s *connections) allIn(conns []*connection, reachable bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn, failing := range s.failing {
		excused := reachable && failing
		if !excused && !slices.Contains(conns, conn) {
			return false
		}
	}
	return len(s.failing) > 0
}

// connection is the way to one endpoint, through all its reconnections, as the
// policy below ours sees it. It lasts as long as the endpoint is one of the
// client's.
type connection struct {
	balancer.SubConn
	peers *connections
	gone  chan struct{} // closed when the endpoint is no longer the client's
}

// noConnection is recorded for an attempt that asked for a connection and has
// not been given one.
var noConnection = new(connection)

func (s *connections) add() *connection {
	conn := &connection{peers: s, gone: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing[conn] = false
	return conn
}

// note keeps what a change of state says of the endpoint. One that failed
// counts as failing while it is tried again, as it does for round_robin.
func (c *connection) note(state connectivity.State) {
	c.peers.mu.Lock()
	defer c.peers.mu.Unlock()
	if _, ok := c.peers.failing[c]; !ok {
		return
	}
	switch state {
	case connectivity.TransientFailure:
		c.peers.failing[c] = true
	case connectivity.Ready:
		c.peers.failing[c] = false
	default:
	}
}

// Shutdown is called when the endpoint was removed, and when the client is
// closed. Streams live on until grpc has drained the transport, which they may
// put off for ever, so those who own one are told.
func (c *connection) Shutdown() {
	c.leave()
	c.SubConn.Shutdown()
}

func (c *connection) leave() {
	c.peers.mu.Lock()
	defer c.peers.mu.Unlock()
	if _, ok := c.peers.failing[c]; ok {
		delete(c.peers.failing, c)
		close(c.gone)
	}
}

func (c *connection) isGone() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}
