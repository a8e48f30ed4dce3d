package channel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/testpki"
)

// Each endpoint determines whether it uses TLS, whatever its position in the list.
func TestSecurityIsDecidedPerEndpoint(t *testing.T) {
	ca := testpki.New(t, "CA")
	plain := startMember(t, "http://", nil)
	secure := startMember(t, "https://", ca.Server(t))
	bare := startMember(t, "", ca.Server(t))
	for _, eps := range [][]string{
		{plain.endpoint, secure.endpoint, bare.endpoint},
		{bare.endpoint, secure.endpoint, plain.endpoint},
	} {
		c := newTestChannel(t, Config{Endpoints: eps, TLS: &tls.Config{RootCAs: ca.Pool()}})
		require.Eventually(t, func() bool {
			require.NoError(t, get(t, c))
			return plain.connections() > 0 && secure.connections() > 0 && bare.connections() > 0
		}, 30*time.Second, time.Millisecond)
		assert.False(t, locked(plain, &plain.secure))
		assert.True(t, locked(secure, &secure.secure))
		assert.True(t, locked(bare, &bare.secure))
	}
	assert.Equal(t, strings.TrimPrefix(secure.endpoint, "https://"), locked(secure, &secure.authorities)[0])
}

// The trusted CA is read at each handshake.
func TestRootsAreReadAtEachHandshake(t *testing.T) {
	before, after := testpki.New(t, "CA"), testpki.New(t, "CA")
	m := startMember(t, "https://", after.Server(t))
	var pool atomic.Pointer[x509.CertPool]
	pool.Store(before.Pool())
	c := newTestChannel(t, Config{
		Endpoints: []string{m.endpoint},
		TLS:       &tls.Config{RootCAs: before.Pool()},
		Roots:     pool.Load,
	})
	_, err := pb.NewKVClient(c.Conn()).Range(grpctest.Within(t, 10*time.Second), &pb.RangeRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	assert.Contains(t, err.Error(), "certificate signed by unknown authority")

	pool.Store(after.Pool())
	assert.NoError(t, get(t, c))
}

// The TLS configuration is the program's own after New: changes concern neither later connections
// nor the health shared with other clients.
func TestTLSConfigurationIsCopied(t *testing.T) {
	ca := testpki.New(t, "CA")
	m := startMember(t, "https://", ca.Server(t))
	config := ca.Client()
	cfg := Config{Endpoints: []string{m.endpoint}, TLS: config, Roots: ca.Pool}
	c := newTestChannel(t, cfg)
	config.ServerName = "other"
	config.VerifyConnection = func(tls.ConnectionState) error { return errors.New("changed") }
	require.NoError(t, get(t, c))

	cfg.TLS = ca.Client()
	assert.Same(t, c.sharing.identity, newTestChannel(t, cfg).sharing.identity)
}

func TestUnixSocket(t *testing.T) {
	t.Chdir(t.TempDir())
	lis := must(net.Listen("unix", "member.sock"))
	m := startMemberAt(t, lis, "unix://", nil)
	c := newTestChannel(t, Config{Endpoints: []string{m.endpoint}})
	require.NoError(t, get(t, c))
	assert.Equal(t, []string{"member.sock"}, m.authorities)
}

func TestSetEndpointsMovesCalls(t *testing.T) {
	a, b := startMember(t, "http://", nil), startMember(t, "http://", nil)
	c := newTestChannel(t, Config{Endpoints: []string{b.endpoint}})
	c.SetEndpoints([]string{a.endpoint}) // before it has connected
	require.NoError(t, get(t, c))
	require.Equal(t, 1, a.calls)

	c.SetEndpoints([]string{"ftp://nonsense", b.endpoint})
	assert.Equal(t, []string{"ftp://nonsense", b.endpoint}, c.Endpoints())
	require.Eventually(t, func() bool { return get(t, c) == nil && b.connections() == 1 }, 30*time.Second, time.Millisecond)
	before := a.calls
	for range 10 {
		require.NoError(t, get(t, c))
	}
	assert.Equal(t, before, a.calls)
}

// Some programs reset connections by setting no endpoints first.
func TestSetNoEndpointsIsTolerated(t *testing.T) {
	m := startMember(t, "http://", nil)
	c := newTestChannel(t, Config{Endpoints: []string{m.endpoint}})
	require.NoError(t, get(t, c))
	c.SetEndpoints(nil)
	_, err := pb.NewKVClient(c).Range(grpctest.Within(t, 200*time.Millisecond), &pb.RangeRequest{}, grpc.WaitForReady(true))
	assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
	c.SetEndpoints([]string{m.endpoint})
	assert.NoError(t, get(t, c))
}

func TestCallsByNameReuseTheirConnection(t *testing.T) {
	m := startMember(t, "http://", nil)
	c := newTestChannel(t, Config{Endpoints: []string{m.endpoint}})
	for range 20 {
		conn := must(c.At(m.endpoint))
		must(pb.NewMaintenanceClient(conn).Status(t.Context(), &pb.StatusRequest{}))
	}
	assert.Equal(t, 20, m.calls)
	assert.Equal(t, 1, m.connections())
}

func TestUnusedConnectionsAreDropped(t *testing.T) {
	c := newTestChannel(t, Config{Endpoints: []string{"127.0.0.1:1"}})
	for _, ep := range []string{"127.0.0.1:2", "127.0.0.1:3"} {
		must(c.At(ep))
	}
	forgotten := c.single.conns["127.0.0.1:2"]
	forgotten.asked = time.Now().Add(-2 * singleForgotten)
	must(c.At("127.0.0.1:4"))
	assert.NotContains(t, c.single.conns, "127.0.0.1:2")
	assert.Contains(t, c.single.conns, "127.0.0.1:3")
	assert.Equal(t, connectivity.Shutdown, forgotten.GetState())
}

// A user's interceptors see each attempt once, and none of them, not even one that replaces all
// others, can disable retries or tokens. An error of their own without a status fails a call that was not sent, as it is.
func TestInterceptorsSeeAttemptsAndCannotDisableRetry(t *testing.T) {
	m := startMember(t, "http://", nil)
	var outer, inner int
	var own error
	failTwice := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if outer++; outer <= 2 {
			return status.Error(codes.Unavailable, "no")
		}
		if own != nil {
			return own
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	count := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		inner++
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	c := newTestChannel(t, Config{
		Endpoints:   []string{m.endpoint},
		DialOptions: []grpc.DialOption{grpc.WithUnaryInterceptor(failTwice), grpc.WithChainUnaryInterceptor(count)},
	})
	require.NoError(t, get(t, c))
	assert.Equal(t, 3, outer)
	assert.Equal(t, 1, inner)
	for _, own = range []error{errors.New("the circuit is open"), context.Canceled, fmt.Errorf("limited: %w", context.DeadlineExceeded)} {
		outer = 2
		assert.Equal(t, own, c.Invoke(t.Context(), pb.KV_Put_FullMethodName, new(pb.PutRequest), new(pb.PutResponse)))
		assert.Equal(t, own, get(t, c))
		assert.Equal(t, 4, outer, "%v: neither is repeated", own)
	}
}

func TestStaleTokenIsReplaced(t *testing.T) {
	m := startMember(t, "http://", nil)
	valid := "alice-1"
	m.accepts = func(token string) bool { return token == valid }
	c := newTestChannel(t, Config{
		Endpoints: []string{m.endpoint},
		Login:     func() Login { return Login{Username: "alice", Password: "secret"} },
	})
	require.NoError(t, c.Authenticate(t.Context()))
	require.NoError(t, get(t, c))
	require.Equal(t, 1, m.authenticates)

	valid = "alice-2"
	require.NoError(t, get(t, c))
	assert.Equal(t, 2, m.authenticates)

	t.Run("on a bare connection too", func(t *testing.T) {
		valid = "alice-3"
		require.NoError(t, get(t, c.Conn()))
		assert.Equal(t, 3, m.authenticates)
	})
	t.Run("within bounds", func(t *testing.T) {
		valid = "none"
		assert.Equal(t, codes.Unauthenticated, status.Code(get(t, c)))
		assert.Equal(t, 3+maxTokenRefreshes, m.authenticates)
	})
}

func TestCloseEndsEverything(t *testing.T) {
	c := newTestChannel(t, Config{Endpoints: []string{"127.0.0.1:1"}})
	waiting := make(chan error, 1)
	go func() {
		_, err := pb.NewKVClient(c).Range(t.Context(), &pb.RangeRequest{}, grpc.WaitForReady(true))
		waiting <- err
	}()
	require.Eventually(t, func() bool { return c.Conn().GetState() == connectivity.TransientFailure }, 30*time.Second, time.Millisecond)
	require.NoError(t, c.Close())
	assert.Equal(t, codes.Canceled, status.Code(<-waiting))
	assert.Equal(t, codes.Canceled, status.Code(get(t, c)))
	assert.Equal(t, codes.Canceled, status.Code(c.Close()))
	_, err := c.At("127.0.0.1:1")
	assert.Equal(t, codes.Canceled, status.Code(err))
}
