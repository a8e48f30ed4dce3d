package balancer

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/resolver"
)

// Credentials returns credentials that do what creds do, and let the policy know the
// connections that they shake hands on, so that it can close one under the calls on it.
// A connection made with other credentials is closed gracefully, and the calls on it
// are told ([Observer.Cut]).
func Credentials(creds credentials.TransportCredentials) credentials.TransportCredentials {
	if x, ok := creds.(xdsCredentials); ok {
		return registeringXDS{registering{creds}, x}
	}
	return registering{creds}
}

// xdsCredentials are those of grpc's package credentials/xds. To these only gRPC hands what
// the control plane says of security; others are used as they are.
type xdsCredentials interface{ UsesXDS() bool }

type registeringXDS struct {
	registering
	xdsCredentials
}

func (r registeringXDS) Clone() credentials.TransportCredentials {
	return Credentials(r.TransportCredentials.Clone())
}

type registering struct {
	credentials.TransportCredentials
}

func (r registering) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if l := lineOf(credentials.ClientHandshakeInfoFromContext(ctx)); l != nil {
		l.socket.set(conn)
		conn = counted{conn, l}
	}
	return r.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

func (r registering) Clone() credentials.TransportCredentials {
	return registering{r.TransportCredentials.Clone()}
}

type lineKey struct{}

// addressesOf returns the addresses of an endpoint, marked with the line that they are
// dialled for.
func addressesOf(l *line, addrs []resolver.Address) []resolver.Address {
	marked := make([]resolver.Address, len(addrs))
	for i, a := range addrs {
		a.Attributes = a.Attributes.WithValue(lineKey{}, l)
		marked[i] = a
	}
	return marked
}

func lineOf(info credentials.ClientHandshakeInfo) *line {
	l, _ := info.Attributes.Value(lineKey{}).(*line)
	return l
}

// socket is the latest network connection of a line.
type socket struct {
	mu   sync.Mutex
	conn net.Conn
}

func (s *socket) set(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = conn
}

// close closes the connection and reports whether there was one.
func (s *socket) close() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return false
	}
	_ = s.conn.Close() // it may have been closed before
	s.conn = nil
	return true
}
