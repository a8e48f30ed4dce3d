package fakeapiserver

import (
	"net"
	"sync"
)

// gate holds every byte of every connection while it is shut.
type gate struct {
	mu    sync.Mutex
	shut  chan struct{} // nil while open, closed when it opens
	conns map[*conn]struct{}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// pass waits until the gate is open, and fails if the connection is closed by then.
func (g *gate) pass(c *conn) error {
	for {
		g.mu.Lock()
		shut := g.shut
		g.mu.Unlock()
		if shut == nil {
			return nil
		}
		select {
		case <-shut:
		case <-c.done:
			return net.ErrClosed
		}
	}
}

func (g *gate) connections() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns)
}

// reset closes all connections with a TCP reset.
func (g *gate) reset() {
	g.mu.Lock()
	conns := make([]*conn, 0, len(g.conns))
	for c := range g.conns {
		conns = append(conns, c)
	}
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
	c := &conn{Conn: inner, gate: l.gate, done: make(chan struct{})}
	l.gate.mu.Lock()
	l.gate.conns[c] = struct{}{}
	l.gate.mu.Unlock()
	return c, nil
}

type conn struct {
	net.Conn
	gate *gate
	once sync.Once
	done chan struct{}
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
	c.once.Do(func() {
		close(c.done)
		c.gate.mu.Lock()
		delete(c.gate.conns, c)
		c.gate.mu.Unlock()
	})
	return c.Conn.Close()
}
