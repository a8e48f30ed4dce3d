package static

import (
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// published takes what a resolver says.
type published struct {
	resolver.ClientConn
	states []resolver.State
}

func (p *published) UpdateState(s resolver.State) error {
	p.states = append(p.states, s)
	return nil
}

func TestTargets(t *testing.T) {
	for target, want := range map[string][]string{
		"static:///10.0.0.1:80":             {"10.0.0.1:80"},
		"static:10.0.0.1:80":                {"10.0.0.1:80"},
		"static:///b:1,a:2,[fd00::1]:3":     {"b:1", "a:2", "[fd00::1]:3"},
		"static:///10.0.0.1:80,10.0.0.1:81": {"10.0.0.1:80", "10.0.0.1:81"},
	} {
		t.Run(target, func(t *testing.T) {
			got, err := build(t, target)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

func TestBadTargets(t *testing.T) {
	for target, want := range map[string]string{
		"static:///":              "lists no endpoint",
		"static:///10.0.0.1":      `"10.0.0.1" is not HOST:PORT`,
		"static:///a:1,":          `"" is not HOST:PORT`,
		"static:///:80":           `":80" is not HOST:PORT`,
		"static:///fd00::1:80":    "in brackets",
		"static:///a:1,b:1,a:1":   "a:1 is listed twice",
		"static://10.0.0.1:80":    "three slashes",
		"static://10.0.0.1:80/a:": "three slashes",
	} {
		t.Run(target, func(t *testing.T) {
			_, err := build(t, target)
			assert.ErrorContains(t, err, want)
			assert.ErrorContains(t, err, target)
		})
	}
}

func build(t *testing.T, target string) ([]string, error) {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	b, err := NewBuilder(Config{})
	require.NoError(t, err)
	cc := &published{}
	r, err := b.Build(resolver.Target{URL: *u}, cc, resolver.BuildOptions{})
	if err != nil {
		assert.Empty(t, cc.states)
		return nil, err
	}
	r.Close()
	require.Len(t, cc.states, 1)
	var addrs []string
	for _, ep := range cc.states[0].Endpoints {
		require.Len(t, ep.Addresses, 1)
		addrs = append(addrs, ep.Addresses[0].Addr)
	}
	return addrs, nil
}

func TestBadScheme(t *testing.T) {
	_, err := NewBuilder(Config{Scheme: "My scheme"})
	assert.ErrorContains(t, err, `Scheme "My scheme"`)
}

// A channel works, and works again after it was idle.
func TestChannelThatWasIdle(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := grpc.NewServer()
	pb.RegisterTestServiceServer(srv, pb.UnimplementedTestServiceServer{})
	go func() { _ = srv.Serve(lis) }()
	t.Cleanup(srv.Stop)

	b, err := NewBuilder(Config{Scheme: "list"})
	require.NoError(t, err)
	conn, err := grpc.NewClient("list:///"+lis.Addr().String(), grpc.WithResolvers(b), grpc.WithIdleTimeout(time.Second),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	for range 2 {
		_, err := pb.NewTestServiceClient(conn).EmptyCall(t.Context(), &pb.Empty{}, grpc.WaitForReady(true))
		require.ErrorContains(t, err, "not implemented")
		require.Eventually(t, func() bool { return conn.GetState() == connectivity.Idle }, 30*time.Second, 10*time.Millisecond)
	}
}
