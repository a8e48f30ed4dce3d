package channel

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/quorate/quorate/internal/grpctest"
)

// member is a gRPC server that answers Range, Status and Watch, verifies tokens if configured, and
// counts connections.
type member struct {
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedAuthServer
	pb.UnimplementedWatchServer

	endpoint string
	accepts  func(token string) bool // nil: auth is off
	header   func(metadata.MD)       // receives the header of each request; nil: none
	leader   atomic.Bool             // without it watches that require one are refused
	accepted atomic.Int32            // TCP connections

	mu            sync.Mutex
	calls         int
	authenticates int
	authorities   []string
	remotes       map[string]bool
	secure        bool
}

func startMember(t *testing.T, scheme string, tlsConfig *tls.Config) *member {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return startMemberAt(t, lis, scheme, tlsConfig)
}

func startMemberAt(t *testing.T, lis net.Listener, scheme string, tlsConfig *tls.Config) *member {
	t.Helper()
	m := &member{endpoint: scheme + lis.Addr().String(), remotes: map[string]bool{}}
	m.leader.Store(true)
	var opts []grpc.ServerOption
	if tlsConfig != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(tlsConfig)))
	}
	grpctest.ServeOn(t, countingListener{lis, &m.accepted}, func(s grpc.ServiceRegistrar) {
		pb.RegisterKVServer(s, m)
		pb.RegisterMaintenanceServer(s, m)
		pb.RegisterAuthServer(s, m)
		pb.RegisterWatchServer(s, m)
	}, opts...)
	return m
}

func (m *member) note(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	md, _ := metadata.FromIncomingContext(ctx)
	if m.header != nil {
		m.header(md)
	}
	m.authorities = append(m.authorities, md.Get(":authority")...)
	p, _ := peer.FromContext(ctx)
	m.remotes[p.Addr.String()] = true
	_, m.secure = p.AuthInfo.(credentials.TLSInfo)
	if m.accepts == nil {
		return nil
	}
	tokens := md.Get(rpctypes.TokenFieldNameGRPC)
	if len(tokens) == 0 {
		return rpctypes.ErrGRPCUserEmpty
	}
	if !m.accepts(tokens[0]) {
		return rpctypes.ErrGRPCInvalidAuthToken
	}
	return nil
}

func (m *member) Range(ctx context.Context, _ *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{Count: 1}, m.note(ctx)
}

func (m *member) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Version: "3.7.3"}, m.note(ctx)
}

func (m *member) Authenticate(_ context.Context, r *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.authenticates++
	if r.Password != "secret" {
		return nil, rpctypes.ErrGRPCAuthFailed
	}
	return &pb.AuthenticateResponse{Token: r.Name + "-" + string(rune('0'+m.authenticates))}, nil
}

// Watch sends the same response for each request until the stream ends.
func (m *member) Watch(ws pb.Watch_WatchServer) error {
	if err := m.note(ws.Context()); err != nil {
		return err
	}
	if RequiresLeader(incomingAsOutgoing(ws.Context())) && !m.leader.Load() {
		return rpctypes.ErrGRPCNoLeader
	}
	for {
		if _, err := ws.Recv(); err != nil {
			return err
		}
		if err := ws.Send(&pb.WatchResponse{Created: true}); err != nil {
			return err
		}
	}
}

func incomingAsOutgoing(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	return metadata.NewOutgoingContext(ctx, md)
}

type countingListener struct {
	net.Listener
	accepted *atomic.Int32
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return conn, err
}

func (m *member) connections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.remotes)
}

func newTestChannel(t *testing.T, cfg Config) *Channel {
	t.Helper()
	if cfg.Login == nil {
		cfg.Login = func() Login { return Login{} }
	}
	cfg.Logger = zap.NewNop
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func put(ctx context.Context, conn grpc.ClientConnInterface) error {
	_, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: []byte("k")})
	return err
}

func get(t *testing.T, c grpc.ClientConnInterface) error {
	t.Helper()
	_, err := pb.NewKVClient(c).Range(grpctest.Within(t, 10*time.Second), &pb.RangeRequest{Key: []byte("k")}, grpc.WaitForReady(true))
	return err
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
