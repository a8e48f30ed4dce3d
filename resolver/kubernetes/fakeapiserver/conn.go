package fakeapiserver

import (
	"maps"
	"net"
	"slices"
	"sync"
)

// gate holds every byte of every connection while it is shut.
type gate struct {
	mu      sync.Mutex
	changed *sync.Cond // the gate was opened, or a connection closed
	shut    bool
	conns   map[*conn]struct{} // those that are not closed
}

func newGate() *gate {
	g := &gate{conns: make(map[*conn]struct{})}
	g.changed = sync.NewCond(&g.mu)
	return g
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	g.changed.Broadcast()
}

// pass waits until the gate is open, and fails if the connection is closed by then.
func (g *gate) pass(c *conn) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut {
		if _, open := g.conns[c]; !open {
			return net.ErrClosed
		}
		g.changed.Wait()
	}
	return nil
}

func (g *gate) connections() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns)
}

// reset closes all connections with a TCP reset.
func (g *gate) reset() {
	g.mu.Lock()
	conns := slices.Collect(maps.Keys(g.conns))
	g.mu.Unlock()
	for _, c := range conns {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset tells the client at least as much
		}
		_ = c.Close()
	}
}

// listener puts its connections behind a gate.
type listener struct {
	net.Listener
	gate *gate
}

func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, gate: l.gate}
	l.gate.mu.Lock()
	l.gate.conns[c] = struct{}{}
	l.gate.mu.Unlock()
	return c, nil
}

type conn struct {
	net.Conn
	gate *gate
}

// Read holds back what has arrived while the gate is shut.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if held := c.gate.pass(c); held != nil {
		return 0, held
	}
	return n, err
}

// Write waits while the gate is shut.
func (c *conn) Write(b []byte) (int, error) {
	if err := c.gate.pass(c); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// Close ends the connection, and what waits on it.
func (c *conn) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.conns, c)
	c.gate.changed.Broadcast()
	c.gate.mu.Unlock()
	return c.Conn.Close()
}
