package integration_test

import (
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"

	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/internal/nameserver"
	"github.com/quorate/quorate/resolver/dns"
)

// interval is short, as the test waits for some lookups.
const interval = 500 * time.Millisecond

// backend is a gRPC server that counts its connections.
type backend struct {
	net.Listener
	ip       string
	accepted atomic.Int64
}

// Accept counts a connection.
func (b *backend) Accept() (net.Conn, error) {
	conn, err := b.Listener.Accept()
	if err == nil {
		b.accepted.Add(1)
	}
	return conn, err
}

// startBackends runs a server on each address, all on one port.
func startBackends(t *testing.T, ips ...string) (port string, all []*backend) {
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
			all = append(all, &backend{Listener: l, ip: ip})
			port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		}
	}
	for _, b := range all {
		grpctest.ServeOn(t, b, func(s grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(s, health.NewServer()) })
	}
	return port, all
}

// records returns those of backends.
func records(all []*backend) (texts []string) {
	for _, b := range all {
		texts = append(texts, "30 "+b.ip)
	}
	return texts
}

// counts returns how many connections each backend has accepted.
func counts(all []*backend) (n []int64) {
	for _, b := range all {
		n = append(n, b.accepted.Load())
	}
	return n
}

// dialWith returns a channel with resolvers before gRPC's own.
func dialWith(t *testing.T, target, policy string, resolvers ...resolver.Builder) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithResolvers(resolvers...), grpc.WithNoProxy(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+policy+`":{}}]}`))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// answering makes calls, none of which may fail, and returns which hosts have answered.
func answering(t *testing.T, conn *grpc.ClientConn, calls int) []string {
	t.Helper()
	ctx := labtest.Within(t, testTimeout)
	var hosts []string
	for range calls {
		address, err := grpctest.Ask(ctx, conn)
		require.NoError(t, err)
		host, _, err := net.SplitHostPort(address)
		require.NoError(t, err)
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// until makes calls until these backends answer, and no others. The first waits for a connection.
func until(t *testing.T, conn *grpc.ClientConn, backends []*backend) {
	t.Helper()
	var want []string
	for _, b := range backends {
		want = append(want, b.ip)
	}
	ctx := labtest.Within(t, testTimeout)
	_, err := grpctest.Ask(ctx, conn, grpc.WaitForReady(true))
	require.NoError(t, err)
	for got := answering(t, conn, 20); !slices.Equal(want, got); got = answering(t, conn, 20) {
		require.NoError(t, ctx.Err(), "%v answer, not %v", got, want)
	}
}

// A service grows from two backends to four and shrinks to three. Connections to those that
// stay are left alone. gRPC's own resolver, beside it, sees nothing of that.
func TestScalingInDNS(t *testing.T) {
	for _, policy := range []string{"round_robin", "quorate_round_robin"} {
		t.Run(policy, func(t *testing.T) {
			const name = "svc.test. A"
			ns := nameserver.Start(t, "")
			port, all := startBackends(t, "127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.14")
			ns.Set(t, name, records(all[:2])...)
			target := "dns://" + ns.Addr + "/svc.test.:" + port
			builder, err := dns.NewBuilder(dns.Config{Interval: interval})
			require.NoError(t, err)
			conn, theirs := dialWith(t, target, policy, builder), dialWith(t, target, policy)
			until(t, conn, all[:2])
			until(t, theirs, all[:2])

			ns.Set(t, name, records(all)...)
			before, began := ns.Asked(name), time.Now()
			until(t, conn, all)
			t.Logf("four backends after %v and %d lookups, of which there is one in %v", time.Since(began), ns.Asked(name)-before, interval)
			// What is asked now was asked every interval since.
			require.Eventually(t, func() bool { return ns.Asked(name) >= before+4 }, testTimeout, 5*time.Millisecond, "there are no lookups any more")
			assert.Subset(t, []string{all[0].ip, all[1].ip}, answering(t, theirs, 40), "gRPC's own resolver looks up when a connection is lost")
			connections := []int64{2, 2, 1, 1} // theirs too
			assert.Equal(t, connections, counts(all))

			ns.Set(t, name, records(all[:3])...)
			until(t, conn, all[:3])
			assert.Equal(t, connections, counts(all))
		})
	}
}
