package balancer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// The first stream of all needs a connection, and the endpoint that is chosen for it
// accepts no others than it has. Nobody waits for that until the attempt to connect has
// timed out.
func TestStreamDoesNotWaitForAConnectionThatHangs(t *testing.T) {
	servers := []*server{startServer(t), startServer(t)}
	c := connectWithin(t, time.Hour, roundRobin, working{}, servers...)
	c.meetAll(t, servers...)
	for _, s := range servers {
		s.freezeOnly(2)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	picked := &recorder{}
	opened := make(chan error, 1)
	go func() {
		streams := balancer.WithAttempt(ctx, &balancer.Attempt{Lane: balancer.Streams, Observer: picked})
		_, err := pb.NewTestServiceClient(c.ClientConn).StreamingOutputCall(streams, &pb.StreamingOutputCallRequest{}, grpc.WaitForReady(true))
		opened <- err
	}()
	var hangs, serves *server
	require.Eventually(t, func() bool {
		for i, s := range servers {
			if s.conns.Load() == 2 {
				hangs, serves = s, servers[1-i]
			}
		}
		return hangs != nil
	}, 10*time.Second, time.Millisecond)
	serves.thaw()

	require.NoError(t, <-opened)
	assert.Equal(t, serves.addr(), picked.endpoint().Address())
	assert.Positive(t, c.events.reached(health.Suspected), "why it does not connect is asked")
	requireState(t, c, hangs, health.Serving)
	assert.Zero(t, c.events.reached(health.Dead), "it serves calls")
}
