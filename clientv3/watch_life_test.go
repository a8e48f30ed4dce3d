package clientv3_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/metadata"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// streamEnds reports each watch stream that ends at its server.
func streamEnds(cluster *fakeetcd.Cluster) <-chan *fakeetcd.Member {
	ends := make(chan *fakeetcd.Member, 100)
	cluster.On("Watch", func(call *fakeetcd.Call) {
		_, _ = call.Execute() // returns when the client has left
		ends <- call.Member
	})
	return ends
}

// TestWatchLeavesARemovedEndpoint removes the endpoint of a stream from the client.
func TestWatchLeavesARemovedEndpoint(t *testing.T) {
	clienttest.InBubble(t, 2, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		ends := streamEnds(cluster)
		w := c.Watch(clienttest.Within(t), "k")
		requireRevs(t, w, 2, put(t, cluster, "k", 1))
		from, to := cluster.Member(0), cluster.Member(1)
		if cluster.Calls("Watch")[0].Member == to {
			from, to = to, from
		}
		begun := time.Now()
		c.SetEndpoints(to.Endpoint())
		require.Equal(t, from, await(t, ends, "no stream has ended"))
		require.Less(t, time.Since(begun), 5*time.Second, "it takes a second")
		last := put(t, cluster, "k", 5)
		requireRevs(t, w, 3, last)
		require.Equal(t, to, cluster.Calls("Watch")[1].Member)
	})
}

// TestWatchClose closes the watcher, and the client, while watches are running, being created and
// unread.
func TestWatchClose(t *testing.T) {
	for name, closing := range map[string]func(*Client) error{
		"watcher": func(c *Client) error { return c.Watcher.Close() },
		"client":  func(c *Client) error { return c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 1)
			running := c.Watch(clienttest.Within(t), "k")
			unread := c.Watch(clienttest.Within(t), "k")
			requireRevs(t, running, 2, put(t, cluster, "k", 1))
			streams := scriptWatches(t, cluster, 1)
			creating := startWatch(metadata.AppendToOutgoingContext(clienttest.Within(t), "stream", "other"), c, "k")
			take(t, streams).createRequest()

			require.NoError(t, closing(c))
			for _, w := range []WatchChan{running, unread, started(t, creating)} {
				for range w { // ends
				}
			}
			requireClosed(t, c.Watch(clienttest.Within(t), "k"))
			require.Error(t, c.RequestProgress(clienttest.Within(t)))
			require.NoError(t, c.Watcher.Close())
		})
	}
}

// TestWatchFromWatchClient watches over a connection of the program, without a client.
func TestWatchFromWatchClient(t *testing.T) {
	cluster := clienttest.Start(t, 1)
	conn, err := cluster.Member(0).Dial()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	watcher := NewWatchFromWatchClient(pb.NewWatchClient(conn), nil)
	t.Cleanup(func() { require.NoError(t, watcher.Close()) })

	w := watcher.Watch(clienttest.Within(t), "k")
	requireRevs(t, w, 2, put(t, cluster, "k", 2))
	cluster.Member(0).BreakConnections()
	requireRevs(t, w, 4, put(t, cluster, "k", 2))
	require.NoError(t, watcher.RequestProgress(clienttest.Within(t)))
	resp, ok := next(t, w)
	require.True(t, ok)
	require.Equal(t, "progress 5", describe(&resp))
}

// The events of a watch are its caller's, who may change them.
func TestWatchEventsAreTheCallers(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	w := c.Watch(clienttest.Within(t), "key")
	for range 50 {
		put(t, cluster, "key", 1)
		for _, ev := range (<-w).Events {
			ev.Kv.ModRevision = 0
		}
	}
}
