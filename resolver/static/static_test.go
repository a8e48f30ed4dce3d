package static

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/testpki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTargets(t *testing.T) {
	for target, want := range map[string][]string{
		"static:///10.0.0.1:80":             {"10.0.0.1:80"},
		"static:10.0.0.1:80":                {"10.0.0.1:80"},
		"static:///b:1,a:2,[fd00::1]:3":     {"b:1", "a:2", "[fd00::1]:3"},
		"static:///10.0.0.1:80,10.0.0.1:81": {"10.0.0.1:80", "10.0.0.1:81"},
		"static:///a-b.c_d:65535":           {"a-b.c_d:65535"},
		"static:a:1;weight=2,b:2;zone=x":    {"a:1", "b:2"},
	} {
		t.Run(target, func(t *testing.T) {
			got, err := published(t, target)
			require.NoError(t, err)
			assert.Equal(t, want, got.List())
		})
	}
}

func TestBadTargets(t *testing.T) {
	for target, want := range map[string]string{
		"static:///":                        "lists no endpoint",
		"static:///10.0.0.1":                `"10.0.0.1" is not HOST:PORT`,
		"static:///a:1,":                    `"" is not HOST:PORT`,
		"static:///:80":                     `":80" is not HOST:PORT`,
		"static:///[a]:80":                  `"[a]:80" has brackets, and "a" is no IPv6 address`,
		"static:///[10.0.0.1]:80":           `"10.0.0.1" is no IPv6 address`,
		"static:///fd00::1:80":              "in brackets",
		"static:///a:1,b:1,a:1":             "a:1 is listed twice",
		"static://10.0.0.1:80":              "three slashes",
		"static://10.0.0.1:80/a:":           "three slashes",
		"static:///b:99999":                 `"b:99999" has the port "99999", which is no number from 1 to 65535`,
		"static:///b:0":                     `the port "0"`,
		"static:///b:-1":                    `the port "-1"`,
		"static:///b:http":                  `the port "http"`,
		"static:///a/b:80":                  `the host "a/b"`,
		"static:///a:80/":                   `the port "80/"`,
		"static:///a%20b:80":                `the host "a b"`,
		"static:///a:80?weight=2":           `"?" and "#" have no meaning in it`,
		"static:///a:80#b":                  `"?" and "#" have no meaning in it`,
		"static:///a:1;":                    `a:1 has the attribute "", which is not KEY=VALUE`,
		"static:///a:1;zone":                `the attribute "zone", which is not KEY=VALUE`,
		"static:///a:1;=x":                  `the attribute "=x", which is not KEY=VALUE`,
		"static:///a:1;zone=x;zone=y":       `a:1 has the attribute "zone" twice`,
		"static:///a:1;weight=1;weight=1":   `a:1 has the attribute "weight" twice`,
		"static:///a:1;weight=0":            `a:1 has the weight "0", which is no whole number from 1 to 65536`,
		"static:///a:1;weight=65537":        `the weight "65537"`,
		"static:///a:1;weight=1.5":          `the weight "1.5"`,
		"static:///a:1;weight=1,a:1;zone=x": "a:1 is listed twice",
	} {
		t.Run(target, func(t *testing.T) {
			_, err := published(t, target)
			assert.ErrorContains(t, err, want)
			assert.ErrorContains(t, err, target)
		})
	}
	_, err := published(t, "static://root:secret@a:1/b:2")
	require.ErrorContains(t, err, `"@" has no meaning in it`)
	assert.NotContains(t, err.Error(), "secret")
	_, err = NewBuilder(Config{Scheme: "My scheme"})
	assert.ErrorContains(t, err, `Scheme "My scheme"`)
}

func TestAttributes(t *testing.T) {
	update, err := published(t, "static:///a:1;weight=2;zone=eu-a;topology.kubernetes.io/zone=a=b,b:2;weight=65536,c:3;zone=,d:4")
	require.NoError(t, err)
	eps := update.Endpoints
	require.Len(t, eps, 4)
	for i, want := range []struct {
		weight   uint32
		metadata map[string]string
	}{
		{2, map[string]string{"zone": "eu-a", "topology.kubernetes.io/zone": "a=b"}},
		{balancer.MaxWeight, nil},
		{balancer.DefaultWeight, map[string]string{"zone": ""}},
		{balancer.DefaultWeight, nil},
	} {
		assert.Equal(t, want.weight, balancer.WeightOf(eps[i]))
		assert.Equal(t, want.metadata, Metadata(eps[i]))
	}
	assert.Nil(t, Metadata(resolver.Endpoint{}))
}

// gRPC compares attributes, and panics if they are not comparable.
func TestAttributesAreComparable(t *testing.T) {
	targets := []string{"static:///a:1;zone=x;node=1", "static:///a:1;zone=x;node=2", "static:///a:1;zone=x", "static:///a:1;weight=2"}
	for i, one := range targets {
		for j, other := range targets {
			a, err := published(t, one)
			require.NoError(t, err)
			b, err := published(t, other)
			require.NoError(t, err)
			assert.Equal(t, i == j, a.Endpoints[0].Attributes.Equal(b.Endpoints[0].Attributes), "%s and %s", one, other)
		}
	}
}

// The authority has no attributes. gRPC requests it before it builds the resolver.
func TestAuthority(t *testing.T) {
	for target, want := range map[string]string{
		"static:///a%20b:1": "a%20b:1",
		"static:///a:1":     "a:1",
		"static:///a:1;weight=2;zone=x,[fd00::1]:3": "a:1,[fd00::1]:3",
		"static:///[fe80::1%25eth0]:1":              "[fe80::1%25eth0]:1",
	} {
		assert.Equal(t, want, newBuilder(t, Config{}).(resolver.AuthorityOverrider).OverrideAuthority(grpctest.Target(t, target)), target)
	}
}

func newBuilder(t *testing.T, cfg Config) resolver.Builder {
	t.Helper()
	b, err := NewBuilder(cfg)
	require.NoError(t, err)
	return b
}

// published returns the only update of a resolver.
func published(t *testing.T, target string) (grpctest.Update, error) {
	t.Helper()
	cc := grpctest.NewChannel()
	r, err := newBuilder(t, Config{}).Build(grpctest.Target(t, target), cc, resolver.BuildOptions{})
	updates, _ := cc.Received()
	if err != nil {
		assert.Empty(t, updates)
		return grpctest.Update{}, err
	}
	r.Close()
	require.Len(t, updates, 1)
	return updates[0], nil
}

// Each endpoint has a certificate for its own name.
func TestTLS(t *testing.T) {
	authority := testpki.New(t, "root")
	target := "static:///"
	for _, name := range []string{"127.0.0.1", "localhost"} {
		server := &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, name)}}
		address := grpctest.Serve(t, func(s grpc.ServiceRegistrar) { pb.RegisterTestServiceServer(s, pb.UnimplementedTestServiceServer{}) },
			grpc.Creds(credentials.NewTLS(server)))
		target += fmt.Sprintf("%s:%d,", name, address.Port)
	}
	conn, err := grpc.NewClient(strings.TrimSuffix(target, ","), grpc.WithResolvers(newBuilder(t, Config{})),
		grpc.WithTransportCredentials(credentials.NewTLS(authority.Client())), grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	require.NoError(t, err)
	defer conn.Close()
	for range 4 {
		_, err := pb.NewTestServiceClient(conn).EmptyCall(grpctest.Within(t, time.Minute), &pb.Empty{}, grpc.WaitForReady(true))
		assert.Equal(t, codes.Unimplemented, status.Code(err), "%v", err)
	}
}

// A channel works before and after idle mode.
func TestIdleChannel(t *testing.T) {
	authorities := make(chan []string, 2)
	address := grpctest.Serve(t, func(s grpc.ServiceRegistrar) { pb.RegisterTestServiceServer(s, pb.UnimplementedTestServiceServer{}) },
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			authorities <- grpcmetadata.ValueFromIncomingContext(ctx, ":authority")
			return handle(ctx, req)
		})).String()
	conn, err := grpc.NewClient("list:///"+address+";weight=2;zone=a", grpc.WithResolvers(newBuilder(t, Config{Scheme: "list"})),
		grpc.WithIdleTimeout(100*time.Millisecond), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	for range 2 {
		_, err := pb.NewTestServiceClient(conn).EmptyCall(t.Context(), &pb.Empty{}, grpc.WaitForReady(true))
		require.ErrorContains(t, err, "not implemented")
		assert.Equal(t, []string{address}, <-authorities)
		require.Eventually(t, func() bool { return conn.GetState() == connectivity.Idle }, 30*time.Second, 10*time.Millisecond)
	}
}
