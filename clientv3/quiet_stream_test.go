package clientv3_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
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

func TestBrokenQuietWatchResumesSoon(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		w := c.Watch(t.Context(), "k")
		for range 10 {
			breakQuiet(cluster)
			written := time.Now()
			rev := put(t, cluster, "k", 1)
			requireRevs(t, w, rev, rev)
			assert.LessOrEqual(t, time.Since(written), 100*time.Millisecond)
		}
	})
}

// A new watch on a broken quiet stream does not wait for the stream's backoff.
func TestQuietStreamDelaysNoWatch(t *testing.T) {
	for _, tt := range []struct {
		name string
		prep func(*testing.T, *Client) (ask func())
	}{
		{"a watch", func(t *testing.T, c *Client) func() {
			t.Helper()
			c.Watch(t.Context(), "quiet")
			return func() { c.Watch(t.Context(), "k") }
		}},
		{"progress", func(t *testing.T, c *Client) func() {
			t.Helper()
			w := c.Watch(t.Context(), "quiet")
			return func() {
				_, err := c.Put(t.Context(), "other", "") // etcd answers once the revision is that from which a watch resumes
				require.NoError(t, err)
				require.NoError(t, c.RequestProgress(t.Context()))
				resp, ok := next(t, w)
				require.True(t, ok && resp.IsProgressNotify())
			}
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
		{"a new lease", func(t *testing.T, c *Client) func() {
			t.Helper()
			keepAlive(t, t.Context(), c, grant(t, c))
			return func() { <-keepAlive(t, t.Context(), c, grant(t, c)) }
		}},
		{"a lock", func(t *testing.T, c *Client) func() {
			t.Helper()
			c.Watch(t.Context(), "quiet")
			var locks [2]*concurrency.Mutex
			for i := range locks {
				s, err := concurrency.NewSession(c, concurrency.WithTTL(600))
				require.NoError(t, err)
				locks[i] = concurrency.NewMutex(s, "lock")
			}
			return func() {
				require.NoError(t, locks[0].Lock(t.Context()))
				released := make(chan error)
				go func() { released <- locks[0].Unlock(t.Context()) }()
				require.NoError(t, locks[1].Lock(t.Context()))
				require.NoError(t, <-released)
				require.NoError(t, locks[1].Unlock(t.Context()))
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
