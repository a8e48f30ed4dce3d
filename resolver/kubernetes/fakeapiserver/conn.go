package fakeapiserver

import (
	"maps"
	"net"
	"slices"
)

// listener accepts connections that hold every byte while the server hangs.
type listener struct {
	net.Listener
	server *Server
}

func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, server: l.server}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.conns[c] = struct{}{}
	return c, nil
}

type conn struct {
	net.Conn
	server *Server
}

// pass waits while the server hangs.
func (c *conn) pass() {
	c.server.gate.RLock()
	defer c.server.gate.RUnlock()
}

// Read holds back what has arrived while the server hangs.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.pass()
	return n, err
}

// Write waits while the server hangs.
func (c *conn) Write(b []byte) (int, error) {
	c.pass()
	return c.Conn.Write(b)
}

// Close ends the connection.
func (c *conn) Close() error {
	c.server.mu.Lock()
	delete(c.server.conns, c)
	c.server.mu.Unlock()
	return c.Conn.Close()
}

// Connections returns how many connections are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Hang holds all connections, open and new: they are accepted, and no byte passes in either
// direction until Resume or Stop. Clients see what they see of a stopped process.
func (s *Server) Hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hangs {
		s.hangs = true
		s.gate.Lock()
	}
}

// Resume ends what Hang began. What was held is served now.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hangs {
		s.hangs = false
		s.gate.Unlock()
	}
}

// BreakConnections resets all connections. New ones are accepted.
func (s *Server) BreakConnections() {
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range conns {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset tells the client at least as much
		}
		_ = c.Close()
	}
}
