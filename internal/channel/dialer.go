package channel

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/endpoint"
	"github.com/quorate/quorate/internal/proxy"
)

// The kernel's timers are a backstop. The balancer's prober ejects a member within a
// second, and only with a witness; these close a connection 20 s after its peer is gone,
// and survive a network outage of 10 s. A probe costs the peer's kernel one packet; etcd
// and its ping policy never see it.
const (
	// keepAliveIdle is TCP_KEEPIDLE of tcp(7), keepAliveInterval TCP_KEEPINTVL and
	// keepAliveCount TCP_KEEPCNT. The probes of an idle connection span 12 s, so that an
	// outage of 10 s cannot cover all of them, and the connection ends 5 s + 5·3 s after
	// its last byte.
	keepAliveIdle     = 5 * time.Second
	keepAliveInterval = 3 * time.Second
	keepAliveCount    = 5

	// userTimeout is TCP_USER_TIMEOUT of tcp(7): how long sent data may stay
	// unacknowledged. It equals gRPC's default keepalive timeout (20 s,
	// keepalive.ClientParameters.Timeout), by which gRPC replaces it on connections
	// with pings (gRFC A18). With the least retransmission timeout (200 ms) the kernel
	// retransmits after 6.2 and 12.6 s, so data that an outage of 10 s held up arrives
	// in time.
	userTimeout = 20 * time.Second

	// maxRetransmission is TCP_RTO_MAX_MS of Linux 6.15, with the least value that it takes: a
	// connection that the network carries again goes on within a second. Otherwise the kernel
	// waits up to as long again as the outage has lasted. Until userTimeout that is a packet
	// a second.
	maxRetransmission = time.Second
)

const (
	// attemptDelay is the head start of one address of a name over the next, the
	// Connection Attempt Delay that RFC 8305 recommends.
	attemptDelay = 250 * time.Millisecond

	// connectTimeout bounds the TCP handshake with one address: SYNs are sent after 0, 1, 2, 3 and 4 s (before Linux 6.5
	// after 0, 1 and 3 s). Later ones are ever further apart, so the kernel would detect a recovered network late.
	connectTimeout = 5 * time.Second
)

// dialer connects to endpoints. Its functions are replaced in tests.
type dialer struct {
	lookup     func(ctx context.Context, host string) ([]net.IPAddr, error)
	connect    func(ctx context.Context, network, address string) (net.Conn, error)
	proxy      func(address string) *url.URL // nil, or returns nil, for none
	handshakes *handshakes                   // nil for none
}

var systemDialer = dialer{
	proxy:  proxy.FromEnvironment,
	lookup: net.DefaultResolver.LookupIPAddr,
	connect: (&net.Dialer{
		Timeout: connectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{
			Enable:   true,
			Idle:     keepAliveIdle,
			Interval: keepAliveInterval,
			Count:    keepAliveCount,
		},
		Control: setTCPOptions,
	}).DialContext,
}

// dial connects to an address as an Endpoint gives it.
func (d dialer) dial(ctx context.Context, address string) (net.Conn, error) {
	network, addr := endpoint.DialTarget(address)
	if network != "tcp" {
		return d.connect(ctx, network, addr)
	}
	if d.proxy != nil {
		if via := d.proxy(addr); via != nil {
			return proxy.Dial(ctx, via, addr, d.dialTCP)
		}
	}
	return d.dialTCP(ctx, addr)
}

func (d dialer) dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if ip, _ := netip.ParseAddr(host); err != nil || host == "" || ip.IsValid() {
		return d.connect(ctx, "tcp", addr) // the net package reports an invalid address
	}
	ips, err := d.lookup(ctx, host)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	addrs := make([]string, 0, len(ips))
	for _, ip := range interleave(ips) {
		addrs = append(addrs, net.JoinHostPort(ip.String(), port))
	}
	d.handshakes.order(addrs)
	return d.dialFirst(ctx, host, addrs)
}

// interleave alternates between the address families, beginning with that of the
// first address (RFC 8305, section 4).
func interleave(ips []net.IPAddr) []net.IPAddr {
	if len(ips) == 0 {
		return nil
	}
	var first, second []net.IPAddr
	for _, ip := range ips {
		if isIPv4(ip) == isIPv4(ips[0]) {
			first = append(first, ip)
		} else {
			second = append(second, ip)
		}
	}
	mixed := make([]net.IPAddr, 0, len(ips))
	for i := range max(len(first), len(second)) {
		mixed = append(mixed, first[min(i, len(first)):min(i+1, len(first))]...)
		mixed = append(mixed, second[min(i, len(second)):min(i+1, len(second))]...)
	}
	return mixed
}

func isIPv4(ip net.IPAddr) bool { return ip.IP.To4() != nil }

// dialResult is the end of one connection attempt.
type dialResult struct {
	conn net.Conn
	err  error
}

// dialFirst connects to the addresses of a host. The next attempt begins when
// one has failed, or attemptDelay after it began; the first connection wins, and
// the others are closed. The error is that of the first attempt that failed.
func (d dialer) dialFirst(ctx context.Context, host string, addrs []string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan dialResult)
	start := func(addr string) {
		conn, err := d.connect(ctx, "tcp", addr)
		select {
		case results <- dialResult{conn, err}:
		case <-ctx.Done():
			if conn != nil {
				_ = conn.Close() // another attempt won; nothing was sent on this one
			}
		}
	}
	var first error
	next := time.NewTimer(0)
	defer next.Stop()
	for begun, failed := 0, 0; failed < len(addrs); {
		select {
		case <-next.C:
			if begun < len(addrs) {
				go start(addrs[begun])
				begun++
				next.Reset(attemptDelay)
			}
		case r := <-results:
			if r.err == nil {
				return r.conn, nil
			}
			if failed++; first == nil {
				first = r.err
			}
			next.Reset(0)
		case <-ctx.Done():
			return nil, unreached(host, addrs, first, ctx.Err())
		}
	}
	return nil, unreached(host, addrs, first, nil)
}

// unreached is the error for a host whose addresses all refuse connections.
func unreached(host string, addrs []string, first, ended error) error {
	switch {
	case len(addrs) == 0:
		return &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	case first == nil:
		return fmt.Errorf("connect to %s, %d addresses: %w", host, len(addrs), ended)
	case len(addrs) == 1:
		return first
	default:
		return fmt.Errorf("cannot connect to any of the %d addresses of %s; first error: %w", len(addrs), host, first)
	}
}

// handshakeMemory is the least time for which an address whose TLS handshake failed is tried after the others of its name.
const handshakeMemory = 10 * time.Minute

// handshakes remembers the addresses whose latest TLS handshake failed. TCP connects to them, so a name with
// several addresses would be tried at the same one forever.
type handshakes struct {
	mu     sync.Mutex
	failed map[string]time.Time
}

func newHandshakes() *handshakes { return &handshakes{failed: make(map[string]time.Time)} }

// ended records the result of a handshake with the peer of a connection.
func (h *handshakes) ended(conn net.Conn, err error) {
	addr := conn.RemoteAddr()
	if addr == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.failed, addr.String())
		return
	}
	now := time.Now()
	maps.DeleteFunc(h.failed, func(_ string, at time.Time) bool { return now.Sub(at) > handshakeMemory })
	h.failed[addr.String()] = now
}

// order moves addresses whose handshake failed to the end, the latest last.
func (h *handshakes) order(addrs []string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortStableFunc(addrs, func(a, b string) int { return h.failed[a].Compare(h.failed[b]) })
}
