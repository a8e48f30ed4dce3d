package balancer

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/health"
)

// Credentials returns credentials that do what creds do, and let the policy know the
// connections that they shake hands on, so that it can close one under the calls on it.
// A connection made with other credentials is closed gracefully, and the calls on it
// are cut one by one ([Watcher]).
func Credentials(creds credentials.TransportCredentials) credentials.TransportCredentials {
	if x, ok := creds.(xdsCredentials); ok {
		return registeringXDS{registering{creds}, x}
	}
	return registering{creds}
}

// xdsCredentials are those of grpc's package credentials/xds. Only to these gRPC hands what
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
	if s := subConnOf(credentials.ClientHandshakeInfoFromContext(ctx)); s != nil {
		s.conn.set(conn)
		conn = counting(conn, &s.conn)
	}
	return r.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

func (r registering) Clone() credentials.TransportCredentials {
	return registering{r.TransportCredentials.Clone()}
}

type subConnKey struct{}

// String names the attribute in gRPC's log.
func (subConnKey) String() string { return "quorate.subConn" }

// markedAddresses returns the addresses of an endpoint, marked with the subConn that they
// are dialed for.
func markedAddresses(s *subConn) []resolver.Address {
	marked := make([]resolver.Address, len(s.ep.addresses))
	for i, a := range s.ep.addresses {
		a.Attributes = a.Attributes.WithValue(subConnKey{}, s)
		marked[i] = a
	}
	return marked
}

func subConnOf(info credentials.ClientHandshakeInfo) *subConn {
	s, _ := info.Attributes.Value(subConnKey{}).(*subConn)
	return s
}

const (
	// largeMessage is more than the answers to probes, a PING and their like. Answers wait
	// behind such a message, in whatever buffers lie between.
	largeMessage = 1 << 10
	// transferPause is how long a transfer may pause: rate limiters pass on what gathered
	// in up to a second.
	transferPause = 1500 * time.Millisecond
)

// netConn is the latest network connection of a subConn.
type netConn struct {
	mu   sync.Mutex
	conn net.Conn

	// received counts the bytes that arrived, and complete how many there were when the
	// latest message was complete. arrived is when the latest bytes of a large message did.
	received, complete atomic.Int64
	arrived            health.Stamp
}

func (c *netConn) set(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
}

// known reports whether the policy knows the connection, and can close it.
func (c *netConn) known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn != nil
}

// close closes the connection and reports whether there was one.
func (c *netConn) close() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return false
	}
	_ = c.conn.Close() // it may have been closed before
	c.conn = nil
	return true
}

// messageComplete notes that a message arrived whole.
func (c *netConn) messageComplete() { c.complete.Store(c.received.Load()) }

// arrivedNow notes that so many bytes arrived. When, is noted for large messages only.
func (c *netConn) arrivedNow(n int) {
	if c.received.Add(int64(n))-c.complete.Load() >= largeMessage {
		c.arrived.Set(health.Now())
	}
}

// receiving reports whether part of a large message has arrived, and goes on arriving.
func (c *netConn) receiving(now time.Time) bool {
	return c.received.Load()-c.complete.Load() >= largeMessage && c.arrived.Since(now) < transferPause
}

// backlog is what waits to be sent on a connection, by the kernel's account. It is all zero
// where the kernel gives none: on systems other than Linux, and for what is not TCP.
type backlog struct {
	acked  uint64 // bytes that have arrived at the peer
	unsent uint32 // bytes that the network does not take yet
}

// movedSince reports whether a backlog becomes less. That a peer acknowledges what it is
// sent shows nothing by itself: the kernel of a frozen one does.
func (b backlog) movedSince(was backlog) bool {
	return b.unsent > 0 && b.acked >= was.acked+largeMessage
}

func (c *netConn) backlog() backlog {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return backlog{}
	}
	return backlogOf(c.conn)
}

// countingConn counts what arrives on a connection.
type countingConn struct {
	net.Conn
	counts *netConn
}

func (c countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.counts.arrivedNow(n)
	return n, err
}

// SyscallConn is for gRPC's channelz.
func (c countingConn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
