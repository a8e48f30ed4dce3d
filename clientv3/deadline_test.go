package clientv3_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// callsWithoutDeadline are a read and a write.
var callsWithoutDeadline = map[string]func(ctx context.Context, c *Client) error{
	"Get": func(ctx context.Context, c *Client) error { _, err := c.Get(ctx, "k"); return err },
	"Put": func(ctx context.Context, c *Client) error { _, err := c.Put(ctx, "k", "v"); return err },
}

// Without a deadline, a call waits until its context ends for an endpoint that is reachable, and
// continues with it.
func TestCallWithoutDeadlineWhileNoEndpointIsReachable(t *testing.T) {
	for name, call := range callsWithoutDeadline {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
				for _, m := range cluster.Members() {
					m.Stop()
				}
				const longer = time.Hour
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(longer, cancel)
				start := time.Now()
				assert.Equal(t, context.Canceled, call(ctx, c))
				assert.Equal(t, longer, time.Since(start))

				time.AfterFunc(longer, cluster.Member(1).Start)
				require.NoError(t, call(t.Context(), c))
				assert.GreaterOrEqual(t, time.Since(start), 2*longer)
			})
		})
	}
}

// Without a deadline, a call that reachable endpoints fail ends after 15 s, with the last error.
func TestCallWithoutDeadlineThatFails(t *testing.T) {
	for name, call := range callsWithoutDeadline {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
				refuse(cluster, "Range", rpctypes.ErrGRPCNoLeader, cluster.Members()...)
				refuse(cluster, "Put", rpctypes.ErrGRPCNoLeader, cluster.Members()...)
				start := time.Now()
				assert.Equal(t, rpctypes.ErrNoLeader, call(t.Context(), c))
				assert.LessOrEqual(t, time.Since(start), 15*time.Second)
				assert.Greater(t, time.Since(start), 10*time.Second)
			})
		})
	}
}
