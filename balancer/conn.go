package balancer

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/health"
)

// Credentials wraps creds and registers each connection with the policy, so that the
// policy can close an unresponsive connection at once, with all calls on it. Connections
// made with other credentials are closed gracefully, and the calls on them are cut one by
// one ([Watcher]).
func Credentials(creds credentials.TransportCredentials) credentials.TransportCredentials {
	if x, ok := creds.(xdsCredentials); ok {
		return registeringXDS{registering{creds}, x}
	}
	return registering{creds}
}

// xdsCredentials is implemented by grpc's package credentials/xds. gRPC passes the security
// configuration of the control plane only to such credentials.
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

// markedAddresses returns the addresses of an endpoint, in the order in which they are tried, marked with the
// subConn that they are dialed for. A fallback has only the first.
func markedAddresses(s *subConn) []resolver.Address {
	marked := slices.Concat(s.ep.addresses[s.first:], s.ep.addresses[:s.first])
	for i, a := range marked {
		marked[i].Attributes = a.Attributes.WithValue(subConnKey{}, s)
	}
	if s.fallbackOf != nil {
		return marked[:1]
	}
	return marked
}

func subConnOf(info credentials.ClientHandshakeInfo) *subConn {
	s, _ := info.Attributes.Value(subConnKey{}).(*subConn)
	return s
}

const (
	// largeMessage is larger than probe responses, PINGs and other control frames.
	// Responses queue behind such a message.
	largeMessage = 1 << 10
	// controlFrames is more than what a server sends while it only receives: window updates and
	// answers to PINGs, a few at a time.
	controlFrames = 128
	// transferPause is how long a transfer may pause: rate limiters release data in
	// intervals of up to a second.
	transferPause = 1500 * time.Millisecond
)

// netConn is the latest network connection of a subConn.
type netConn struct {
	conn atomic.Pointer[net.Conn] // nil before the first, and once the policy has closed it

	// received counts the bytes received. complete is the count at the end of the latest
	// message. arrived is when the latest bytes of a large message arrived.
	received, complete atomic.Int64
	arrived            health.Stamp
}

func (c *netConn) set(conn net.Conn) { c.conn.Store(&conn) }

// known reports whether the policy knows the connection, and can close it.
func (c *netConn) known() bool { return c.conn.Load() != nil }

// close closes the connection and reports whether there was one.
func (c *netConn) close() bool {
	conn := c.conn.Swap(nil)
	if conn == nil {
		return false
	}
	_ = (*conn).Close() // it may have been closed before
	return true
}

// arrivedNow records that n bytes arrived. It records the time for large messages only.
func (c *netConn) arrivedNow(n int) {
	if n < controlFrames && c.received.Load()-c.complete.Load()+int64(n) < largeMessage {
		c.complete.Add(int64(n)) // no large message begins like that
	}
	if c.received.Add(int64(n))-c.complete.Load() >= largeMessage {
		c.arrived.Set(health.Now())
	}
}

// receiving reports whether a large message is arriving.
func (c *netConn) receiving(now time.Time) bool {
	return c.received.Load()-c.complete.Load() >= largeMessage && c.arrived.Since(now) < transferPause
}

// backlog is what the kernel knows (TCP_INFO) of the bytes sent on a connection. It is zero on systems other than Linux
// and for connections other than TCP.
type backlog struct {
	acked          uint64 // bytes that the peer has acknowledged
	unsent         uint32 // bytes in the send buffer that were never sent
	retransmitting bool   // the kernel repeats bytes that the peer does not acknowledge
}

// movedSince reports whether a backlog shrinks. Acknowledgements alone are no sign of
// life: the kernel of a frozen process sends them.
func (b backlog) movedSince(was backlog) bool {
	return b.unsent > 0 && b.acked >= was.acked+largeMessage
}

func (c *netConn) backlog() backlog {
	conn := c.conn.Load()
	if conn == nil {
		return backlog{}
	}
	return backlogOf(*conn)
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
