package integration_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/randomsubsetting"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/internal/grpctest"
)

// TestSubset puts gRPC's random_subsetting policy (gRFC A68) above one of this library: twelve backends, and a subset of three, one
// of which is taken away.
func TestSubset(t *testing.T) {
	const size = 3
	var backends []string
	for range 12 {
		backends = append(backends, grpctest.ServeHealth(t))
	}
	without := func(gone string) (state resolver.State) {
		for _, b := range backends {
			if b != gone {
				state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: b}}})
			}
		}
		return state
	}
	names := manual.NewBuilderWithScheme("subset")
	names.InitialState(without(""))
	config := fmt.Sprintf(`{"loadBalancingConfig": [{"random_subsetting_experimental": {
		"subsetSize": %d,
		"childPolicy": [{"quorate_round_robin": {"healthProbe": {}}}]
	}}]}`, size)
	conn, err := grpc.NewClient("subset:///billing", grpc.WithResolvers(names), grpc.WithDefaultServiceConfig(config),
		grpc.WithTransportCredentials(balancer.Credentials(insecure.NewCredentials())))
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close()) }()
	ctx := grpctest.Within(t, testTimeout)
	// used calls until that many backends have answered, and some more.
	used := func(n int) (answered []string) {
		for ; len(answered) < n; time.Sleep(pollInterval) {
			for range 20 {
				backend, err := grpctest.Ask(ctx, conn)
				require.NoError(t, err)
				if !slices.Contains(answered, backend) {
					answered = append(answered, backend)
				}
			}
		}
		return answered
	}
	subset := used(size)
	require.Len(t, subset, size)

	names.UpdateState(without(subset[0]))
	after := used(size)
	for slices.Contains(after, subset[0]) {
		after = used(size)
	}
	require.Len(t, after, size)
	assert.Subset(t, after, subset[1:], "one backend less moves one connection")
}
