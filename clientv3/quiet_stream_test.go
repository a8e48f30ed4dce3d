package clientv3_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// breakQuiet breaks all connections after a quiet time, as a rolling restart or a proxy's maximum
// connection age does.
func breakQuiet(cluster *fakeetcd.Cluster) {
	time.Sleep(12 * time.Second)
	for _, m := range cluster.Members() {
		m.BreakConnections()
	}
	time.Sleep(10 * time.Millisecond)
}

// A new watch or a renewal on a quiet stream that broke does not wait for the stream's backoff.
func TestQuietStreamDelaysNoCaller(t *testing.T) {
	for _, tt := range []struct {
		name string
		prep func(*testing.T, *Client) (ask func())
	}{
		{"a watch", func(t *testing.T, c *Client) func() {
			t.Helper()
			c.Watch(t.Context(), "quiet")
			return func() { c.Watch(t.Context(), "k") }
		}},
		{"a renewal", func(t *testing.T, c *Client) func() {
			t.Helper()
			id := grant(t, c)
			keepAlive(t, t.Context(), c, id)
			return func() {
				_, err := c.KeepAliveOnce(t.Context(), id)
				require.NoError(t, err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
				ask := tt.prep(t, c)
				for range 10 {
					breakQuiet(cluster)
					begun := time.Now()
					ask()
					assert.LessOrEqual(t, time.Since(begun), 10*time.Millisecond)
				}
			})
		})
	}
}
