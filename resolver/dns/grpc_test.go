package dns

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/internal/grpctest"
)

// testService returns empty replies, and records the authority of calls.
type testService struct {
	testgrpc.UnimplementedTestServiceServer
}

func (testService) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	return &testgrpc.Empty{}, grpc.SetHeader(ctx, metadata.Pairs("asked-for", md.Get(":authority")[0]))
}

// serve runs a gRPC server on loopback and returns its port.
func serve(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(grpctest.Serve(t, func(s grpc.ServiceRegistrar) { testgrpc.RegisterTestServiceServer(s, testService{}) }).Port)
}

func dial(t *testing.T, b resolver.Builder, target, policy string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append([]grpc.DialOption{
		grpc.WithResolvers(b), grpc.WithNoProxy(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"` + policy + `":{}}]}`),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func call(t *testing.T, conn *grpc.ClientConn, opts ...grpc.CallOption) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	_, err := testgrpc.NewTestServiceClient(conn).EmptyCall(ctx, &testgrpc.Empty{}, opts...)
	return err
}

// Calls fail with the reason, with every policy.
func TestCallsFailWithTheReason(t *testing.T) {
	s := newScript()
	s.fails("failing", errServerFailure)
	s.fails("none", errNoSuchHost)
	b := newBuilder(t, Config{Resolver: s})
	for _, policy := range []string{"pick_first", "round_robin", "quorate_round_robin", "quorate_p2c"} {
		for target, want := range map[string]string{
			"dns:///failing:80":      `dns: looking up the addresses of "failing": server misbehaving`,
			"dns:///none:80":         `dns: "none" has no addresses: no such host`,
			"dns:///_a._tcp.none:80": `dns: bad target "dns:///_a._tcp.none:80": "_a._tcp.none" is the name of SRV records, which have the ports; remove ":80"`,
		} {
			t.Run(policy+" "+target, func(t *testing.T) {
				err := call(t, dial(t, b, target, policy))
				require.Equal(t, codes.Unavailable, status.Code(err), err)
				require.ErrorContains(t, err, want)
			})
		}
	}
}

// A service is scaled to zero and back. gRPC's round_robin has its own text for an empty list.
func TestScaleToZeroAndBack(t *testing.T) {
	const gone = `dns: "svc" has no addresses: no such host`
	for policy, want := range map[string]string{
		"pick_first": gone, "quorate_round_robin": gone, "round_robin": "no children to pick from",
	} {
		t.Run(policy, func(t *testing.T) {
			s := newScript()
			s.has("svc", "127.0.0.1")
			b := newBuilder(t, Config{Resolver: s, Interval: 50 * time.Millisecond, MassRemovalDelay: 100 * time.Millisecond})
			conn := dial(t, b, "dns:///svc:"+serve(t), policy)
			require.NoError(t, call(t, conn))
			s.fails("svc", errNoSuchHost)
			require.Eventually(t, func() bool {
				err := call(t, conn)
				return err != nil && strings.Contains(err.Error(), want)
			}, testTimeout, 10*time.Millisecond)
			s.has("svc", "127.0.0.1")
			require.NoError(t, call(t, conn, grpc.WaitForReady(true)))
		})
	}
}

// The authority is the target's, without the labels of SRV records, and never the name in a
// record.
func TestAuthority(t *testing.T) {
	port := serve(t)
	number, err := net.LookupPort("tcp", port)
	require.NoError(t, err)
	s := newScript()
	s.has("svc.test", "127.0.0.1")
	s.has("pod-0.svc.test.", "127.0.0.1")
	s.hasSRV("_grpc._tcp.svc.test", srvRecord("pod-0.svc.test.", uint16(number), 0, 0))
	for target, want := range map[string]string{
		"dns:///svc.test:" + port:    "svc.test:" + port,
		"dns:///_grpc._tcp.svc.test": "svc.test",
	} {
		var header metadata.MD
		var from peer.Peer
		require.NoError(t, call(t, dial(t, newBuilder(t, Config{Resolver: s}), target, "round_robin"), grpc.Header(&header), grpc.Peer(&from)))
		require.Equal(t, []string{want}, header.Get("asked-for"))
		require.Equal(t, "127.0.0.1:"+port, fmt.Sprint(from.Addr))
	}
}
