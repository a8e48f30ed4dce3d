package kuberesolver_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/grpctest"
)

// fleet is gRPC servers on this machine that pass for pods. An API server refuses
// loopback addresses, so that the clients' dialer knows where the pods are.
type fleet map[string]string // from a pod's host:port to the server's

// podKey is the header in which a server says which pod it is.
const podKey = "pod"

// newFleet runs a server for every pod.
func newFleet(t *testing.T, addresses ...string) fleet {
	t.Helper()
	f := make(fleet, len(addresses))
	for _, address := range at(addresses...) {
		f[address] = grpctest.Serve(t, func(s grpc.ServiceRegistrar) { testgrpc.RegisterTestServiceServer(s, &podServer{address: address}) }).String()
	}
	return f
}

type podServer struct {
	testgrpc.UnimplementedTestServiceServer
	address string
}

func (s *podServer) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, grpc.SetHeader(ctx, metadata.Pairs(podKey, s.address))
}

func (f fleet) dial(ctx context.Context, pod string) (net.Conn, error) {
	address, known := f[pod]
	if !known {
		return nil, fmt.Errorf("%s is no pod", pod)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", address)
}

// connect returns a channel that balances over the pods that the resolver finds.
func (f fleet) connect(t *testing.T, b resolver.Builder, target string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append([]grpc.DialOption{
		grpc.WithResolvers(b),
		grpc.WithContextDialer(f.dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
	}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// call makes one call and returns the endpoint that answered.
func call(ctx context.Context, conn *grpc.ClientConn, options ...grpc.CallOption) (string, error) {
	var header metadata.MD
	_, err := testgrpc.NewTestServiceClient(conn).EmptyCall(ctx, &testgrpc.Empty{}, append(options, grpc.Header(&header))...)
	if err != nil {
		return "", err
	}
	return header.Get(podKey)[0], nil
}

// mustCall makes one call that must succeed.
func mustCall(t *testing.T, conn *grpc.ClientConn, options ...grpc.CallOption) string {
	t.Helper()
	pod, err := call(within(t, patience), conn, options...)
	require.NoError(t, err)
	return pod
}

// callUntil makes calls, all of which must succeed, until one is answered by an endpoint.
func callUntil(t *testing.T, conn *grpc.ClientConn, endpoint string) {
	t.Helper()
	eventually(t, func() bool { return mustCall(t, conn) == endpoint }, "a call is answered by %s", endpoint)
}

// calls is traffic that goes on beside a case.
type calls struct {
	cancel context.CancelFunc
	done   chan error
}

// keepCalling makes one call after the other until end, or until one fails.
func keepCalling(t *testing.T, conn *grpc.ClientConn) *calls {
	t.Helper()
	mustCall(t, conn)
	ctx, cancel := context.WithCancel(t.Context())
	c := &calls{cancel: cancel, done: make(chan error, 1)}
	go func() { c.done <- c.run(ctx, conn) }()
	t.Cleanup(cancel)
	return c
}

func (c *calls) run(ctx context.Context, conn *grpc.ClientConn) error {
	pace := time.NewTicker(pollInterval)
	defer pace.Stop()
	for made := 0; ; made++ {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return nil
		}
		limited, cancel := context.WithTimeout(ctx, patience)
		_, err := call(limited, conn)
		cancel()
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("after %d calls: %w", made, err)
		}
	}
}

// end returns the error of the first call that failed.
func (c *calls) end() error {
	c.cancel()
	return <-c.done
}

// awaitIdle waits until a channel is idle.
func awaitIdle(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	ctx := within(t, patience)
	for state := conn.GetState(); state != connectivity.Idle; state = conn.GetState() {
		require.True(t, conn.WaitForStateChange(ctx, state), "the channel is still %v", state)
	}
}
