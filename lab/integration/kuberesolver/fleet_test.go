//go:build experiment

package kuberesolver_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/grpctest"
)

// fleet is gRPC servers on this machine that pass for pods. An API server refuses
// loopback addresses, so that the clients' dialer knows where the pods are.
type fleet map[string]string // from a pod's host:port to the server's

// newFleet runs a server for every pod.
func newFleet(t *testing.T, addresses ...string) fleet {
	t.Helper()
	f := make(fleet, len(addresses))
	for _, pod := range at(addresses...) {
		f[pod] = grpctest.ServeHealth(t)
	}
	return f
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
func (f fleet) connect(t *testing.T, b resolver.Builder, target string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithResolvers(b), grpc.WithContextDialer(f.dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// mustCall makes one call that must succeed, and returns the address of the server that answered.
func mustCall(t *testing.T, conn *grpc.ClientConn, options ...grpc.CallOption) string {
	t.Helper()
	address, err := grpctest.Ask(within(t, testTimeout), conn, options...)
	require.NoError(t, err)
	return address
}

// callUntil makes calls, all of which must succeed, until one is answered by the server of a pod.
func (f fleet) callUntil(t *testing.T, conn *grpc.ClientConn, pod string) {
	t.Helper()
	for ctx := within(t, testTimeout); mustCall(t, conn) != f[pod]; {
		require.NoError(t, ctx.Err(), "no call is answered by %s", pod)
	}
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
		limited, cancel := context.WithTimeout(ctx, testTimeout)
		_, err := grpctest.Ask(limited, conn)
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
