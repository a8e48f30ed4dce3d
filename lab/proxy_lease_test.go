package lab_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	quorate "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// TestLeaseThroughProxy keeps leases alive through etcd's gRPC proxy, which answers a
// keepalive only when it renews the lease by itself the next time: at once on a new
// stream, and up to a third of the TTL later on an old one. The client has to find out
// that this is no reason to open another stream. With a TTL of 3 s or less there is none
// that would do: the answer to the next request may come when the time is over that the
// one before has proven, since the proxy looks for renewals that are due every 500 ms.
func TestLeaseThroughProxy(t *testing.T) {
	t.Parallel()
	cluster := start(t, lab.Config{Members: 1})
	p := startProxy(t, cluster)
	const ttl, runs = 12, 36 * time.Second
	var streams atomic.Int64
	c := labtest.Client(t, quorate.Config{
		Endpoints: []string{p.Endpoint()}, DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(countStreams(&streams))},
	})
	granted, err := c.Grant(grpctest.Within(t, soon), ttl)
	require.NoError(t, err)
	var m quorate.LeaseMonitor
	ctx := grpctest.Within(t, runs)
	answers, err := c.KeepAlive(quorate.WithLeaseMonitor(ctx, &m), granted.ID)
	require.NoError(t, err)
	n := 0
	for range answers {
		n++
	}
	t.Logf("%d answers on %d streams", n, streams.Load())
	require.ErrorIs(t, m.Err(), context.DeadlineExceeded, "it was kept alive to the end")
	require.GreaterOrEqual(t, n, int(runs.Seconds())/ttl)
	require.LessOrEqual(t, streams.Load(), int64(4))
	left, err := c.TimeToLive(grpctest.Within(t, soon), granted.ID)
	require.NoError(t, err)
	require.Positive(t, left.TTL)
}

// countStreams counts the streams that a client opens.
func countStreams(n *atomic.Int64) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		n.Add(1)
		return open(ctx, desc, cc, method, opts...)
	}
}
