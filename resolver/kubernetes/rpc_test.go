package kubernetes

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/grpctest"
)

func TestRPCErrorSaysWhatIsWrong(t *testing.T) {
	s := slice("users", "a", 80, "10.0.0.1")
	s.Endpoints[0].Conditions.Ready = ptr(false)
	server := startServer(t, s, slice("orders", "b", 80))
	b := newTestBuilder(t, Config{REST: server.RESTConfig()}, quick())
	for text, want := range map[string]string{
		"kubernetes:///users.shop":        "none of the 1 endpoints of service \"users\" in namespace \"shop\" is ready",
		"kubernetes:///users.shop:nosuch": `has no TCP port named "nosuch"`,
		"kubernetes:///orders.shop":       "has no endpoints",
		"kubernetes:///orders.nowhere":    "has no EndpointSlices",
		"kubernetes:///users:80:90":       "two colons",
	} {
		// gRPC's round_robin reports its own text without endpoints.
		conn := connect(t, b, text, grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"pick_first":{}}]}`))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			_, err := grpctest.Ask(t.Context(), conn)
			assert.Equal(c, codes.Unavailable, status.Code(err))
			assert.ErrorContains(c, err, want)
		}, patience, tick, text)
	}
}

func awaitState(t *testing.T, conn *grpc.ClientConn, want connectivity.State) {
	t.Helper()
	ctx := within(t)
	for s := conn.GetState(); s != want; s = conn.GetState() {
		require.True(t, conn.WaitForStateChange(ctx, s), "still %v", s)
	}
}

// authorities records the authorities of calls.
type authorities struct {
	testgrpc.UnimplementedTestServiceServer
	names chan string
}

func (a *authorities) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	a.names <- md.Get(":authority")[0]
	return new(testgrpc.Empty), nil
}

func TestServerName(t *testing.T) {
	a := &authorities{names: make(chan string, 1)}
	port := grpctest.Serve(t, func(s grpc.ServiceRegistrar) { testgrpc.RegisterTestServiceServer(s, a) }).Port
	server := startServer(t, slice("users", "a", int32(port), "127.0.0.1"))
	b := newTestBuilder(t, Config{REST: server.RESTConfig()}, quick())
	for text, c := range map[string]struct {
		opts []grpc.DialOption
		want string
	}{
		"kubernetes:///users.shop:grpc":              {want: "users.shop"},
		"kubernetes://shop/users":                    {want: "users.shop"},
		"kubernetes:///users.shop.svc.cluster.local": {opts: []grpc.DialOption{grpc.WithAuthority("mine")}, want: "mine"},
	} {
		_, err := testgrpc.NewTestServiceClient(connect(t, b, text, c.opts...)).EmptyCall(within(t), new(testgrpc.Empty))
		require.NoError(t, err)
		assert.Equal(t, c.want, <-a.names, text)
	}
}
