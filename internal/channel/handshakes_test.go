package channel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/testpki"
)

// listenOnBoth listens on a port of two addresses.
func listenOnBoth(t *testing.T) (first, second net.Listener, port string) {
	t.Helper()
	for {
		first := must(net.Listen("tcp", "127.0.0.1:0"))
		_, port, err := net.SplitHostPort(first.Addr().String())
		require.NoError(t, err)
		if second, err := net.Listen("tcp", "127.0.0.2:"+port); err == nil {
			return first, second, port
		}
		require.NoError(t, first.Close()) // another process has that port of the second address
	}
}

// TCP connects to both addresses of a name, but the first one has a certificate that the client does not trust.
func TestHandshakeFailsAtOneAddressOfAName(t *testing.T) {
	trusted, untrusted := testpki.New(t, "trusted"), testpki.New(t, "untrusted")
	certificate := trusted.Issue(t, "server", func(c *x509.Certificate) { c.DNSNames = []string{"localhost"} })
	first, second, port := listenOnBoth(t)
	bad := startMemberAt(t, first, "https://", untrusted.Server(t))
	good := startMemberAt(t, second, "https://", &tls.Config{Certificates: []tls.Certificate{certificate}})

	system := systemDialer
	t.Cleanup(func() { systemDialer = system })
	systemDialer.lookup = func(context.Context, string) ([]net.IPAddr, error) {
		return []net.IPAddr{{IP: net.IPv4(127, 0, 0, 1)}, {IP: net.IPv4(127, 0, 0, 2)}}, nil
	}
	c := newTestChannel(t, Config{Endpoints: []string{"https://localhost:" + port}, TLS: trusted.Client()})
	require.NoError(t, get(t, c))
	assert.Positive(t, bad.accepted.Load())
	assert.Equal(t, 1, good.calls)
}

// peerConn is a connection to an address.
type peerConn struct {
	net.Conn
	addr net.Addr
}

func (c peerConn) RemoteAddr() net.Addr { return c.addr }

func TestAddressesWhoseHandshakeFailed(t *testing.T) {
	peer := func(addr string) net.Conn {
		return peerConn{addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))}
	}
	const a, b, c = "10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"
	h := newHandshakes()
	ordered := func() []string {
		addrs := []string{a, b, c}
		h.order(addrs)
		return addrs
	}
	require.Equal(t, []string{a, b, c}, ordered())
	h.ended(peer(b), assert.AnError)
	require.Equal(t, []string{a, c, b}, ordered())
	h.ended(peer(a), assert.AnError)
	require.Equal(t, []string{c, b, a}, ordered(), "the latest last")
	h.ended(peer(b), nil)
	require.Equal(t, []string{b, c, a}, ordered())
}

// The certificate of a member is verified for the host of its endpoint, or for grpc.WithAuthority, and not for ServerName.
func TestNameOfACertificate(t *testing.T) {
	authority := testpki.New(t, "authority")
	named := authority.Issue(t, "server", func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = []string{"etcd.internal"}, nil })
	byAddress := startMember(t, "https://", authority.Server(t))
	byName := startMember(t, "https://", &tls.Config{Certificates: []tls.Certificate{named}})

	wrong := authority.Client()
	wrong.ServerName = "wrong"
	require.NoError(t, get(t, newTestChannel(t, Config{Endpoints: []string{byAddress.endpoint}, TLS: wrong})))
	require.NoError(t, get(t, newTestChannel(t, Config{
		Endpoints: []string{byName.endpoint}, TLS: authority.Client(),
		DialOptions: []grpc.DialOption{grpc.WithAuthority("etcd.internal")},
	})))
}
