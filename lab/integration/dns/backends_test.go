package dns_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"

	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/resolver/dns"
)

// patience is far above what any of these tests takes. Our policies ask a backend that was slow every 30 s at least, and on a busy
// machine it may answer late again.
const patience = 2 * time.Minute

// interval is short, as most tests wait for some of them.
const interval = 500 * time.Millisecond

// backend is a gRPC server that counts its connections.
type backend struct {
	ip       string
	accepted atomic.Int64
}

type counting struct {
	net.Listener
	count *atomic.Int64
}

func (l counting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.count.Add(1)
	}
	return conn, err
}

// startBackends runs a server on each address, all on one port.
func startBackends(t *testing.T, ips ...string) (port string, all []*backend) {
	t.Helper()
	listeners := listenAll(t, ips)
	for i, l := range listeners {
		b := &backend{ip: ips[i]}
		grpctest.ServeOn(t, counting{l, &b.accepted}, func(s grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(s, health.NewServer()) })
		all = append(all, b)
	}
	return strconv.Itoa(listeners[0].Addr().(*net.TCPAddr).Port), all
}

// listenAll finds a port that is free on all addresses.
func listenAll(t *testing.T, ips []string) []net.Listener {
	t.Helper()
	var failure error
	for range 100 {
		var all []net.Listener
		port := "0"
		for _, ip := range ips {
			l, err := net.Listen("tcp", net.JoinHostPort(ip, port))
			if err != nil {
				failure = err
				break
			}
			all = append(all, l)
			port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		}
		if len(all) == len(ips) {
			return all
		}
		for _, l := range all {
			require.NoError(t, l.Close())
		}
	}
	require.FailNow(t, "no port is free on all addresses", failure)
	return nil
}

// addresses returns records for the first n of all.
func addresses(all []*backend, ttl, n int) []string {
	records := make([]string, n)
	for i := range records {
		records[i] = fmt.Sprintf("%d %s", ttl, all[i].ip)
	}
	return records
}

func newBuilder(t *testing.T, cfg dns.Config) resolver.Builder {
	t.Helper()
	if cfg.Interval == 0 {
		cfg.Interval = interval
	}
	b, err := dns.NewBuilder(cfg)
	require.NoError(t, err)
	return b
}

// dial returns a channel with our resolver, or with gRPC's own if b is nil.
func dial(t *testing.T, b resolver.Builder, target, policy string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append(opts, grpc.WithNoProxy(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+policy+`":{}}]}`))
	if b != nil {
		opts = append(opts, grpc.WithResolvers(b))
	}
	conn, err := grpc.NewClient(target, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// call makes a call and returns the address of the server.
func call(t *testing.T, conn *grpc.ClientConn, opts ...grpc.CallOption) (string, error) {
	t.Helper()
	from, err := grpctest.Ask(labtest.Within(t, patience), conn, opts...)
	if err != nil {
		return "", err
	}
	host, _, err := net.SplitHostPort(from)
	return host, err
}

// mustCall makes calls for a while; none may fail. It returns who answered, sorted.
func mustCall(t *testing.T, conn *grpc.ClientConn, calls int) []string {
	t.Helper()
	seen := map[string]bool{}
	var hosts []string
	for range calls {
		host, err := call(t, conn)
		require.NoError(t, err)
		if !seen[host] {
			seen[host] = true
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return hosts
}

// until makes calls until exactly the first n backends answer. Each round has enough calls for
// all. The first call waits for a connection; none may fail.
func until(t *testing.T, conn *grpc.ClientConn, all []*backend, n int) {
	t.Helper()
	want := make([]string, n)
	for i := range want {
		want[i] = all[i].ip
	}
	slices.Sort(want)
	_, err := call(t, conn, grpc.WaitForReady(true))
	require.NoError(t, err)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		got := mustCall(t, conn, 5*len(all))
		if slices.Equal(got, want) {
			return
		}
		require.True(t, time.Now().Before(deadline), "%v answer, not %v", got, want)
	}
}

// eventually waits until condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			require.NoError(t, errors.New(what))
		}
	}
}
