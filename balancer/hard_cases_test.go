package balancer_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// The pinned server freezes: another is pinned, and the call that waits for the frozen one
// ends, though the strategy no longer wants a connection to it.
func TestPinnedServerFreezes(t *testing.T) {
	servers := []*server{startServer(t), startServer(t), startServer(t)}
	c := connect(t, `{"quorate_pinned":{}}`, servers...)
	picked := &recorder{}
	require.NoError(t, c.call(balancer.WithAttempt(t.Context(), &balancer.Attempt{Observer: picked})))
	victim := serverAt(servers, picked.endpoint())
	victim.freeze()
	done := make(chan error, 1)
	go func() { done <- c.call(context.Background()) }()
	require.Error(t, <-done)
	require.NoError(t, c.call(t.Context()))
	others := slices.DeleteFunc(slices.Clone(servers), func(s *server) bool { return s == victim })
	require.Eventually(t, func() bool { return connections(others) == 1 }, 10*time.Second, 5*time.Millisecond)
}

// An endpoint whose second address changes is another one under the same name.
func TestEndpointChangesItsSecondAddress(t *testing.T) {
	s := startServer(t)
	c := connect(t, roundRobin)
	for _, second := range []string{"127.0.0.1:1", "127.0.0.1:2"} {
		st := c.state()
		st.Endpoints = []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: s.addr()}, {Addr: second}}}}
		c.resolver.UpdateState(st)
		require.NoError(t, c.call(t.Context()))
	}
	requireState(t, c, s, health.Serving)
	require.Len(t, c.table.All(), 1)
}

// Where nobody can be asked, a server that was silent for a while is used again when that
// is over.
func TestSuspectWithoutAProber(t *testing.T) {
	servers := []*server{startServer(t), startServer(t)}
	c := connectProbing(t, roundRobin, nil, servers...)
	c.meetAll(t, servers...)
	servers[0].long.Store(int64(800 * time.Millisecond))
	stop := load(c, 2, 10*time.Second)
	requireState(t, c, servers[0], health.Suspected)
	servers[0].long.Store(0)
	requireState(t, c, servers[0], health.Serving)
	_, failed := stop()
	assert.Zero(t, failed)
	assert.Zero(t, servers[0].probes.Load())
}
