package channel

import (
	"context"
	"net"
	"time"

	"github.com/quorate/quorate/endpoint"
)

// How soon the kernel gives up a connection whose peer is gone without a word.
// A host that vanishes behind an idle connection was noticed after 1.6 s with
// probes each second, where gRPC's keepalive, which cannot ask more often than
// every 10 s, needed 11.5 s. The probes cost the peer's kernel a few packets and
// its etcd nothing: the server's ping policy never sees them.
const (
	keepAliveIdle     = time.Second
	keepAliveInterval = time.Second
	keepAliveCount    = 3

	// userTimeout bounds how long sent data may stay unacknowledged
	// (TCP_USER_TIMEOUT). grpc replaces it by the keepalive timeout.
	userTimeout = 3 * time.Second
)

// dial connects to an address as an Endpoint gives it. Proxy variables of the
// environment do not apply: an etcd client that leaves through an HTTP proxy by
// surprise is an outage that nobody understands.
func dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{
			Enable:   true,
			Idle:     keepAliveIdle,
			Interval: keepAliveInterval,
			Count:    keepAliveCount,
		},
		Control: setUserTimeout,
	}
	network, addr := endpoint.DialTarget(address)
	return d.DialContext(ctx, network, addr)
}
