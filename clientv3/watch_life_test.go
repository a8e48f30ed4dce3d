package clientv3_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

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

// The responses of a watch are its caller's, who may change them.
func TestWatchResponsesAreTheCallers(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	w, other := c.Watch(clienttest.Within(t), "key"), c.Watch(clienttest.Within(t), "other")
	require.NoError(t, c.RequestProgress(clienttest.Within(t)))
	require.NotSame(t, (<-w).Header, (<-other).Header)
	for range 50 {
		put(t, cluster, "key", 1)
		resp := <-w
		resp.Header.Revision = 0
		for _, ev := range resp.Events {
			ev.Kv.ModRevision = 0
		}
	}
}

// A proxy passes calls and refuses every stream: the watch is silent, but the log is not, once.
func TestWatchThatCannotBeOpenedIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := clienttest.Start(t, 1)
		core, logs := observer.New(zap.InfoLevel)
		c := clienttest.Connect(t, cluster, Config{Logger: zap.New(core)})
		clienttest.Get(t, c, "k")
		refuse := cluster.On("Watch", func(call *fakeetcd.Call) {
			call.Answer(nil, status.Error(codes.Unknown, "unexpected HTTP status code received from server: 408 (Request Timeout)"))
		})
		watches := make(chan WatchChan, 1)
		go func() { watches <- c.Watch(t.Context(), "k") }() // returns when the watch is created
		time.Sleep(5 * time.Minute)
		lines := logs.FilterMessage("stream keeps failing; trying again").TakeAll()
		require.Len(t, lines, 1)
		assert.Equal(t, cluster.Endpoints()[0], lines[0].ContextMap()["endpoint"])
		assert.Contains(t, lines[0].ContextMap()["error"], "408")
		refuse.Remove()
		w := <-watches
		time.Sleep(time.Minute)
		clienttest.Put(t, cluster, "k", "v")
		require.Len(t, (<-w).Events, 1)
	})
}
