package etcd_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/resolver/etcd"
)

const roundRobin = `{"loadBalancingConfig":[{"round_robin":{}}]}`

// serve runs a gRPC server and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		assert.NoError(t, <-served)
	})
	return listener.Addr().String()
}

func dial(t *testing.T, client *clientv3.Client, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	b, err := etcd.NewBuilder(client, unhurried)
	require.NoError(t, err)
	opts = append(opts, grpc.WithResolvers(b), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("etcd:///svc", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask makes a call and returns the address of the server that answered.
func ask(ctx context.Context, conn *grpc.ClientConn, opts ...grpc.CallOption) (string, error) {
	var p peer.Peer
	_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, append(opts, grpc.Peer(&p))...)
	if err != nil {
		return "", err
	}
	return p.Addr.String(), nil
}

// askUntilAll makes calls until every server has answered.
func askUntilAll(t *testing.T, conn *grpc.ClientConn, servers ...string) {
	t.Helper()
	left := map[string]bool{}
	for _, s := range servers {
		left[s] = true
	}
	for len(left) > 0 {
		addr, err := ask(within(t), conn, grpc.WaitForReady(true))
		require.NoError(t, err)
		require.Contains(t, servers, addr)
		delete(left, addr)
	}
}

// askUntilError makes calls until one fails with the text. Between the empty list and its reason,
// gRPC returns a text of its own.
func askUntilError(t *testing.T, conn *grpc.ClientConn, text string) {
	t.Helper()
	for ctx := within(t); ; {
		_, err := ask(ctx, conn)
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		if strings.Contains(err.Error(), text) {
			return
		}
	}
}

func TestChannel(t *testing.T) {
	_, client, _ := start(t)
	a, b := serve(t), serve(t)
	conn := dial(t, client, grpc.WithDefaultServiceConfig(roundRobin))

	_, err := ask(within(t), conn)
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	askUntilError(t, dial(t, client), `service "svc": no endpoint is registered`) // from pick_first, which passes it on

	register(t, client, "svc", map[string]string{"a": a})
	askUntilAll(t, conn, a)
	register(t, client, "svc", map[string]string{"b": b})
	askUntilAll(t, conn, a, b)
}

// In idle mode gRPC closes the resolver, and builds another with the next call.
func TestIdleChannel(t *testing.T) {
	cluster, client, other := start(t)
	a, b := serve(t), serve(t)
	register(t, client, "svc", map[string]string{"a": a})
	conn := dial(t, client, grpc.WithIdleTimeout(100*time.Millisecond))
	for range 3 {
		askUntilAll(t, conn, a)
		for s := conn.GetState(); s != connectivity.Idle; s = conn.GetState() {
			require.True(t, conn.WaitForStateChange(within(t), s))
		}
	}

	// The endpoint moves while the channel is idle, and etcd is unreachable when it leaves idle
	// mode.
	register(t, other, "svc", map[string]string{"a": b})
	cluster.Member(0).Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := ask(ctx, conn)
	require.Equal(t, codes.DeadlineExceeded, status.Code(err), "the call is bounded by its deadline: %v", err)
	cluster.Member(0).Start()
	for addr := ""; addr != b; {
		addr, err = ask(within(t), conn, grpc.WaitForReady(true))
		require.NoError(t, err)
		require.Contains(t, []string{a, b}, addr) // a is in the last list, which is used while etcd takes longer than staleAfter
	}
}

// Closing a channel while etcd is unreachable does not wait, and leaks nothing.
func TestCloseInAnOutage(t *testing.T) {
	cluster, client, _ := start(t)
	cluster.Member(0).Stop()
	conn := dial(t, client)
	conn.Connect()
	began := time.Now()
	require.NoError(t, conn.Close())
	require.Less(t, time.Since(began), patience/4)
}
