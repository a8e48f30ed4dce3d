package clientv3_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// leaderContexts are the contexts of callers with and without WithRequireLeader.
var leaderContexts = map[string]func(context.Context) context.Context{
	"leader not required": func(ctx context.Context) context.Context { return ctx },
	"leader required":     WithRequireLeader,
}

// TestWatchWithoutAnyLeader: no member knows a leader. A watch that does not require one still
// receives what was committed, and continues when there is a leader again; one that does ends with
// an error.
func TestWatchWithoutAnyLeader(t *testing.T) {
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d members", members), func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, members)
			last := put(t, cluster, "k", 3)
			cluster.SetLeader(nil)
			w := c.Watch(clienttest.Within(t), "k", WithRev(2))
			requireRevs(t, w, 2, last)
			requireEnd(t, c.Watch(WithRequireLeader(clienttest.Within(t)), "k", WithRev(2)), rpctypes.ErrNoLeader)

			cluster.SetLeader(cluster.Member(0))
			requireRevs(t, w, last+1, put(t, cluster, "k", 3))
			requireRevs(t, c.Watch(WithRequireLeader(clienttest.Within(t)), "k", WithRev(2)), 2, last+3)
		})
	}
}

// TestWatchOutlivesMembersThatLoseTheLeaderInTurn restarts a cluster member by member while the
// watch is on it. The others have a leader all the time, so a watch that requires one continues.
func TestWatchOutlivesMembersThatLoseTheLeaderInTurn(t *testing.T) {
	const members = 3
	for name, with := range leaderContexts {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, members, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
				streams := scriptWatches(t, cluster, members)
				starting := startWatch(with(t.Context()), c, "k")
				var w WatchChan
				var left *fakeetcd.Member
				for range members {
					s := take(t, streams)
					require.Equal(t, []string{rpctypes.MetadataHasLeader}, s.Metadata.Get(rpctypes.MetadataRequireLeaderKey))
					require.NotSame(t, left, s.Member)
					left = s.Member
					s.accept(header(1))
					if w == nil {
						w = started(t, starting)
					}
					time.Sleep(1100 * time.Millisecond) // a stream that is quiet for a second shows that its member works
					s.fail(rpctypes.ErrGRPCNoLeader)
				}
				requireRevs(t, w, 2, put(t, cluster, "k", 3))
			})
		})
	}
}
