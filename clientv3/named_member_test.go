package clientv3_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// Calls to a member that is down end without a deadline, with the reason.
func TestStatusOfAMemberThatIsDown(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		down := cluster.Member(2)
		down.Stop()
		start := time.Now()
		_, err := c.Status(context.Background(), down.Endpoint())
		assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		assert.LessOrEqual(t, time.Since(start), 16*time.Second)

		start = time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = c.Status(ctx, down.Endpoint())
		require.Error(t, err)
		assert.LessOrEqual(t, time.Since(start), time.Second)

		restarted := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_, err := c.Status(ctx, down.Endpoint())
			restarted <- err
		}()
		time.Sleep(5 * time.Second)
		down.Start()
		assert.NoError(t, <-restarted)
	})
}

// Members that are down do not delay New, and those that answer decide.
func TestRejectOldClusterWithAMemberDown(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, _ *Client) {
		cfg := Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop(), RejectOldCluster: true}
		for n, limit := range []time.Duration{time.Second, 3 * time.Second, 3 * time.Second, 16 * time.Second} {
			start := time.Now()
			c, err := New(cfg)
			assert.LessOrEqual(t, time.Since(start), limit, "%d members down", n)
			if n == 3 {
				assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
				break
			}
			require.NoError(t, err)
			require.NoError(t, c.Close())
			cluster.Member(n).Stop()
		}
	})
}

// A member that is asked for its status while the others cannot issue a token is asked without.
func TestStatusWhileNoTokenCanBeFetched(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, _ *Client) {
		cfg := Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop()}
		c, err := New(cfg)
		require.NoError(t, err)
		defer c.Close()
		cluster.On("Authenticate", func(call *fakeetcd.Call) { _ = call.Hold(nil) })
		c.SetCredentials("root", "secret")
		start := time.Now()
		_, err = c.Status(context.Background(), cluster.Endpoints()[0])
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(start), 3*time.Second)
	})
}
