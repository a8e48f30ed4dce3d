// Package subsetting shows gRPC's random_subsetting policy (gRFC A68) above the policies of
// this library: each client connects to a few of many backends.
package subsetting_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/randomsubsetting"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/internal/grpctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far above what the test takes. A backend that was slow is asked every 30 s at least, and on a busy machine may answer
// late again.
const patience = 2 * time.Minute

type backend struct {
	testgrpc.UnimplementedTestServiceServer
	address string
	calls   atomic.Int64
}

func (b *backend) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	b.calls.Add(1)
	return &testgrpc.Empty{}, nil
}

func start(t *testing.T) *backend {
	b := &backend{}
	b.address = grpctest.Serve(t, func(s grpc.ServiceRegistrar) { testgrpc.RegisterTestServiceServer(s, b) }).String()
	return b
}

// TestSubset has twelve backends and a subset of three, one of which is taken away.
func TestSubset(t *testing.T) {
	const size = 3
	backends := make([]*backend, 12)
	for i := range backends {
		backends[i] = start(t)
	}
	without := func(gone *backend) resolver.State {
		var state resolver.State
		for _, b := range backends {
			if b != gone {
				state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: b.address}}})
			}
		}
		return state
	}
	names := manual.NewBuilderWithScheme("subset")
	names.InitialState(without(nil))
	config := fmt.Sprintf(`{"loadBalancingConfig": [{"random_subsetting_experimental": {
		"subsetSize": %d,
		"childPolicy": [{"quorate_round_robin": {"healthProbe": {}}}]
	}}]}`, size)
	conn, err := grpc.NewClient("subset:///billing", grpc.WithResolvers(names), grpc.WithDefaultServiceConfig(config),
		grpc.WithTransportCredentials(balancer.Credentials(insecure.NewCredentials())))
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close()) }()
	client := testgrpc.NewTestServiceClient(conn)
	// used calls until that many backends have had calls, and some more.
	used := func(n int) (called []*backend) {
		before := make(map[*backend]int64)
		for _, b := range backends {
			before[b] = b.calls.Load()
		}
		require.Eventually(t, func() bool {
			for range 20 {
				_, err := client.EmptyCall(t.Context(), &testgrpc.Empty{})
				require.NoError(t, err)
			}
			called = nil
			for _, b := range backends {
				if b.calls.Load() > before[b] {
					called = append(called, b)
				}
			}
			return len(called) >= n
		}, patience, time.Millisecond)
		return called
	}
	subset := used(size)
	require.Len(t, subset, size)

	names.UpdateState(without(subset[0]))
	var after []*backend
	require.Eventually(t, func() bool {
		after = used(size)
		return !slices.Contains(after, subset[0])
	}, patience, time.Millisecond)
	require.Len(t, after, size)
	assert.Subset(t, after, subset[1:], "one backend less moves one connection")
}
