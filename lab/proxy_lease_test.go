package lab_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	quorate "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
)

// TestLeaseThroughProxy keeps leases alive through etcd's gRPC proxy, which answers a
// keepalive only when it renews the lease by itself the next time: at once on a new
// stream, and up to a third of the TTL later on an old one. The client has to find out
// that this is no reason to open another stream. With a TTL of 3 s or less there is none
// that would do: the answer to the next request may come when the time is over that the
// one before has proven, since the proxy looks for renewals that are due every 500 ms.
func TestLeaseThroughProxy(t *testing.T) {
	cluster := start(t, lab.Config{Members: 1})
	p := startProxy(t, cluster)
	for _, test := range []struct {
		name string
		ttl  int64 // seconds
		runs time.Duration
	}{
		{"12 s", 12, 36 * time.Second},
		{"15 s", 15, 40 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var streams atomic.Int64
			c, err := quorate.New(quorate.Config{
				Endpoints: []string{p.Endpoint()}, Logger: zap.NewNop(),
				DialOptions: []grpc.DialOption{countStreams(&streams)},
			})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, c.Close()) })
			granted, err := c.Grant(within(t, soon), test.ttl)
			require.NoError(t, err)
			var m quorate.LeaseMonitor
			ctx, cancel := context.WithTimeout(t.Context(), test.runs)
			defer cancel()
			answers, err := c.KeepAlive(quorate.WithLeaseMonitor(ctx, &m), granted.ID)
			require.NoError(t, err)
			n := 0
			for range answers {
				n++
			}
			t.Logf("%d answers on %d streams", n, streams.Load())
			require.ErrorIs(t, m.Err(), context.DeadlineExceeded, "it was kept alive to the end")
			require.GreaterOrEqual(t, n, int(test.runs.Seconds())/int(test.ttl))
			require.LessOrEqual(t, streams.Load(), int64(4))
			left, err := c.TimeToLive(within(t, soon), granted.ID)
			require.NoError(t, err)
			require.Positive(t, left.TTL)
		})
	}
}

// countStreams counts the streams that a client opens.
func countStreams(n *atomic.Int64) grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn,
		method string, open grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		n.Add(1)
		return open(ctx, desc, cc, method, opts...)
	})
}
