package integration_test

import (
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/nameserver"
	"github.com/quorate/quorate/resolver/dns"
)

// interval is short, as the test waits for some lookups.
const interval = 500 * time.Millisecond

// startBackends runs a server on each address, all on one port.
func startBackends(t *testing.T, ips ...string) (port string, all []grpctest.CountingListener) {
	t.Helper()
	for tries := 0; len(all) < len(ips); tries++ { // until a port is free on all addresses
		require.Less(t, tries, 100)
		for _, b := range all {
			require.NoError(t, b.Close())
		}
		port, all = "0", nil
		for _, ip := range ips {
			l, err := net.Listen("tcp", net.JoinHostPort(ip, port))
			if err != nil {
				break
			}
			all = append(all, grpctest.CountingListener{Listener: l, Accepted: new(atomic.Int32)})
			port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		}
	}
	for _, b := range all {
		grpctest.ServeOn(t, b, registerHealth)
	}
	return port, all
}

// records returns those of backends.
func records(all []grpctest.CountingListener) (texts []string) {
	for _, b := range all {
		texts = append(texts, "30 "+b.Addr().(*net.TCPAddr).IP.String())
	}
	return texts
}

// addresses returns those of backends.
func addresses(all []grpctest.CountingListener) (addrs []string) {
	for _, b := range all {
		addrs = append(addrs, b.Addr().String())
	}
	return addrs
}

// counts returns how many connections each backend has accepted.
func counts(all []grpctest.CountingListener) (n []int32) {
	for _, b := range all {
		n = append(n, b.Accepted.Load())
	}
	return n
}

// A service grows from two backends to four and shrinks to three. Connections to those that
// stay are left alone. gRPC's own resolver, beside it, sees nothing of that.
func TestScalingInDNS(t *testing.T) {
	for _, policy := range []string{"round_robin", "quorate_round_robin"} {
		t.Run(policy, func(t *testing.T) {
			const name = "svc.test. A"
			ns := nameserver.New("")
			t.Cleanup(func() { require.NoError(t, ns.Close()) })
			port, all := startBackends(t, "127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.14")
			ns.Set(name, records(all[:2])...)
			target := "dns://" + ns.Addr + "/svc.test.:" + port
			builder, err := dns.NewBuilder(dns.Config{Interval: interval})
			require.NoError(t, err)
			conn, theirs := dialWith(t, target, policy, builder), dialWith(t, target, policy)
			callUntilOnly(t, conn, addresses(all[:2])...)
			callUntilOnly(t, theirs, addresses(all[:2])...)

			ns.Set(name, records(all)...)
			before, began := ns.Asked(name), time.Now()
			callUntilOnly(t, conn, addresses(all)...)
			t.Logf("four backends after %v and %d lookups, of which there is one in %v", time.Since(began), ns.Asked(name)-before, interval)
			// Lookups go on, one in each interval.
			require.Eventually(t, func() bool { return ns.Asked(name) >= before+4 }, testTimeout, 5*time.Millisecond, "there are no lookups any more")
			callUntilOnly(t, theirs, addresses(all[:2])...) // gRPC's own resolver looks up when a connection is lost
			connections := []int32{2, 2, 1, 1}              // of both channels
			assert.Equal(t, connections, counts(all))

			ns.Set(name, records(all[:3])...)
			callUntilOnly(t, conn, addresses(all[:3])...)
			assert.Equal(t, connections, counts(all))
		})
	}
}
