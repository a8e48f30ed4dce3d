package clientv3_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/internal/testpki"
)

// realMember is a member behind a real socket.
type realMember struct {
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedAuthServer
	pb.UnimplementedClusterServer

	clusterID uint64
	addr      string
	accepted  atomic.Int32 // connections

	mu      sync.Mutex
	members [][]string // the client URLs that it reports for the members
	tokens  []string
}

func (m *realMember) advertise(members ...[]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members = members
}

// start serves on an address; tlsConfig is nil for plaintext.
func (m *realMember) start(t *testing.T, addr string, tlsConfig *tls.Config) (stop func()) {
	t.Helper()
	lis := clienttest.Must(net.Listen("tcp", addr))
	m.addr = lis.Addr().String()
	var opts []grpc.ServerOption
	if tlsConfig != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(tlsConfig)))
	}
	s := grpc.NewServer(opts...)
	pb.RegisterKVServer(s, m)
	pb.RegisterMaintenanceServer(s, m)
	pb.RegisterAuthServer(s, m)
	pb.RegisterClusterServer(s, m)
	done := make(chan error, 1)
	go func() { done <- s.Serve(grpctest.CountingListener{Listener: lis, Accepted: &m.accepted}) }()
	stop = sync.OnceFunc(func() { s.Stop(); <-done })
	t.Cleanup(stop)
	return stop
}

// memberID is the ID of each realMember.
const memberID = 5

// startMember starts a member in plaintext, and returns its endpoint.
func startMember(t *testing.T, clusterID uint64) string {
	t.Helper()
	m := &realMember{clusterID: clusterID}
	m.start(t, "127.0.0.1:0", nil)
	return "http://" + m.addr
}

func (m *realMember) note(ctx context.Context) *pb.ResponseHeader {
	md, _ := metadata.FromIncomingContext(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tokens = append(m.tokens, md.Get(rpctypes.TokenFieldNameGRPC)...)
	return &pb.ResponseHeader{ClusterId: cmp.Or(m.clusterID, 1), MemberId: memberID}
}

func (m *realMember) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: m.note(ctx), Leader: 1}, nil
}

func (m *realMember) Range(ctx context.Context, _ *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{Header: m.note(ctx)}, nil
}

func (m *realMember) MemberList(ctx context.Context, _ *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	resp := &pb.MemberListResponse{Header: m.note(ctx)}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, urls := range m.members {
		resp.Members = append(resp.Members, &pb.Member{Name: "m", ClientURLs: urls})
	}
	return resp, nil
}

func (m *realMember) Authenticate(context.Context, *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	return &pb.AuthenticateResponse{Token: "token"}, nil
}

func newTLSClient(t *testing.T, cfg Config) (*Client, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.WarnLevel)
	cfg.Logger, cfg.DialTimeout = zap.New(core), 20*time.Second
	c := clienttest.Must(New(cfg))
	t.Cleanup(func() { _ = c.Close() })
	return c, logs
}

func TestSyncNeverMovesATLSClientToPlaintext(t *testing.T) {
	id := testpki.New(t, "member")
	client, now := id.Client(), time.Now()
	client.Time = func() time.Time { return now } // when the certificates are valid, in virtual time too
	plain, secure := new(realMember), new(realMember)
	plain.start(t, "127.0.0.1:0", nil)
	secure.start(t, "127.0.0.1:0", id.Server(t))
	plaintext, inTLS := "http://"+plain.addr, "https://"+secure.addr
	secure.advertise([]string{inTLS, plaintext})

	t.Run("left out", func(t *testing.T) {
		c, logs := newTLSClient(t, Config{Endpoints: []string{inTLS}, TLS: client, Username: "root", Password: "hunter2"})
		for range 2 {
			require.NoError(t, c.Sync(clienttest.Within(t)))
			assert.Equal(t, []string{inTLS}, c.Endpoints())
		}
		clienttest.Get(t, c, "k")
		assert.Zero(t, plain.accepted.Load(), "not even probed")
		require.Equal(t, 1, logs.Len(), "one warning for each reason")
		assert.Equal(t, []any{plaintext}, logs.All()[0].ContextMap()["left-out"])
		assert.Contains(t, logs.All()[0].ContextMap()["advice"], "AllowInsecureSync")
	})
	t.Run("nothing else is advertised", func(t *testing.T) {
		secure.advertise([]string{plaintext})
		c, _ := newTLSClient(t, Config{Endpoints: []string{inTLS}, TLS: client})
		assert.ErrorContains(t, c.Sync(clienttest.Within(t)), "plaintext")
		assert.Equal(t, []string{inTLS}, c.Endpoints())
		assert.Zero(t, plain.accepted.Load())
	})
	t.Run("nothing else is advertised by one member", func(t *testing.T) {
		other := new(realMember)
		other.start(t, "127.0.0.1:0", id.Server(t))
		secure.advertise([]string{"https://" + other.addr}, []string{plaintext})
		synctest.Test(t, func(t *testing.T) { // no time passes while a server may answer
			c, _ := newTLSClient(t, Config{Endpoints: []string{inTLS}, TLS: client})
			require.NoError(t, c.Sync(clienttest.Within(t)))
			assert.Equal(t, []string{"https://" + other.addr, inTLS}, c.Endpoints(), "the endpoint that works may be that member's")
		})
		assert.Zero(t, plain.accepted.Load())
	})
	t.Run("named by the program", func(t *testing.T) {
		secure.advertise([]string{inTLS, plaintext})
		plain.advertise([]string{inTLS, plaintext})
		c, logs := newTLSClient(t, Config{Endpoints: []string{inTLS}, TLS: client})
		c.SetEndpoints(inTLS, plaintext)
		require.NoError(t, c.Sync(clienttest.Within(t)))
		assert.Equal(t, []string{inTLS, plaintext}, c.Endpoints())
		assert.Zero(t, logs.Len())
	})
	t.Run("allowed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _ := newTLSClient(t, Config{Endpoints: []string{inTLS}, TLS: client, AllowInsecureSync: true})
			require.NoError(t, c.Sync(clienttest.Within(t)))
			assert.Equal(t, []string{inTLS, plaintext}, c.Endpoints())
		})
	})
	assert.Empty(t, plain.tokens)
}

func TestAllowInsecureSyncExcludesCredentials(t *testing.T) {
	for _, cfg := range []Config{
		{Endpoints: []string{"https://127.0.0.1:1"}, Username: "root", Password: "hunter2"},
		{Endpoints: []string{"127.0.0.1:1"}, TLS: &tls.Config{}, Token: "jwt"},
	} {
		cfg.AllowInsecureSync, cfg.Logger = true, zap.NewNop()
		_, err := New(cfg)
		assert.ErrorContains(t, err, "AllowInsecureSync")
	}
	c, err := New(Config{Endpoints: []string{"http://127.0.0.1:1"}, Token: "jwt", AllowInsecureSync: true, Logger: zap.NewNop()})
	require.NoError(t, err, "it changes nothing for a client without TLS")
	require.NoError(t, c.Close())
}

// A client with TLS fails a call at once rather than send its password in plaintext.
func TestPasswordIsNotSentInPlaintext(t *testing.T) {
	plain := new(realMember)
	plain.start(t, "127.0.0.1:0", nil)
	ep := "http://" + plain.addr
	cfg := Config{
		Endpoints: []string{ep}, TLS: &tls.Config{}, Username: "root", Password: "hunter2",
		DialTimeout: 20 * time.Second, Logger: zap.NewNop(),
	}
	_, err := New(cfg)
	require.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
	assert.ErrorContains(t, err, ep)
	assert.NotContains(t, err.Error(), "hunter2")

	cfg.TLS = nil // without TLS it is sent, as the official client does
	c := clienttest.Must(New(cfg))
	clienttest.Get(t, c, "k")
	require.NoError(t, c.Close())
	assert.Equal(t, []string{"token"}, plain.tokens)
}

// gate makes a cluster accept one token, which may change, and records the tokens of requests.
type gate struct {
	mu     sync.Mutex
	accept string
	seen   []string
}

func (g *gate) guard(cluster *fakeetcd.Cluster) {
	check := func(call *fakeetcd.Call) {
		md, _ := metadata.FromIncomingContext(call.Context())
		token := fmt.Sprint(md.Get(rpctypes.TokenFieldNameGRPC))
		g.mu.Lock()
		defer g.mu.Unlock()
		g.seen = append(g.seen, token)
		if token != "["+g.accept+"]" {
			call.Answer(nil, rpctypes.ErrGRPCInvalidAuthToken)
		}
	}
	cluster.On("Range", check)
	cluster.On("Watch", check)
}

func (g *gate) set(accept string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.accept, g.seen = accept, nil
}

func startGated(t *testing.T, accept string, change func(*Config)) (*gate, *Client) {
	t.Helper()
	cluster := clienttest.Start(t, 1)
	g := &gate{accept: accept}
	g.guard(cluster)
	cfg := Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop()}
	change(&cfg)
	c := clienttest.Must(New(cfg))
	t.Cleanup(func() { _ = c.Close() })
	return g, c
}

func TestSetTokenWithCallsInFlight(t *testing.T) {
	g, c := startGated(t, "t0", func(cfg *Config) { cfg.Token = "t0" })
	stop := make(chan struct{})
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for !pause.Closed(stop) {
				_, _ = c.Get(t.Context(), "k")
			}
		})
	}
	for i := range 100 {
		if i%2 == 0 {
			c.SetToken(fmt.Sprint("t", i))
		} else {
			c.SetCredentials("root", fmt.Sprint("p", i))
		}
	}
	close(stop)
	calls.Wait()

	g.set("last")
	c.SetToken("last")
	clienttest.Get(t, c, "k")
	assert.Equal(t, []string{"[last]"}, g.seen, "the previous token is no longer used")
	assert.Equal(t, "t0", c.Token, "the fields are the program's")

	g.set("")
	c.SetToken("")
	_, _ = c.Get(t.Context(), "k")
	assert.Contains(t, g.seen, "[]")
}

// Assigning the field, as programs of the official client do, works before and between calls.
func TestTokenAssignedToTheField(t *testing.T) {
	g, c := startGated(t, "a", func(*Config) {})
	c.Token = "a"
	clienttest.Get(t, c, "k")
	g.set("b")
	c.Token = "b"
	clienttest.Get(t, c, "k")
	g.set("")
	c.Token = ""
	clienttest.Get(t, c, "k")
}
