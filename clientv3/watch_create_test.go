package clientv3_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// TestWatchAfterTokenExpiry invalidates all tokens during a watch. The watch continues, and a new
// one is created on another stream with one new token.
func TestWatchAfterTokenExpiry(t *testing.T) {
	cluster, admin := clienttest.StartClient(t, 1)
	c := rootClient(t, cluster, admin)
	old := c.Watch(clienttest.Within(t), "k")
	first := put(t, cluster, "k", 1)
	requireRevs(t, old, first, first)
	logins := cluster.Count("Authenticate")
	cluster.InvalidateTokens()

	var starting []<-chan WatchChan
	for range 10 {
		starting = append(starting, startWatch(clienttest.Within(t), c, "k", WithRev(first)))
	}
	for _, s := range starting {
		w := started(t, s)
		requireRevs(t, w, first, first)
	}
	require.Equal(t, logins+1, cluster.Count("Authenticate"))
	require.Equal(t, 2, cluster.Count("Watch"))

	cluster.InvalidateTokens()
	cluster.Member(0).BreakConnections()
	last := put(t, cluster, "k", 3)
	requireRevs(t, old, first+1, last)
}

// Tokens expire before a refusal of them would show that they are refused by all members.
func TestNewWatchesWithTokensThatExpireSoon(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, admin *Client) {
		c := rootClient(t, cluster, admin)
		for range 10 {
			time.Sleep(2 * time.Second)
			cluster.InvalidateTokens()
			created := <-c.Watch(t.Context(), "k", WithCreatedNotify())
			require.NoError(t, created.Err())
		}
		require.LessOrEqual(t, cluster.Count("Authenticate"), 12)
	})
}

// kine refuses every watch whose id the client chose.
func startKine(t *testing.T) (*fakeetcd.Cluster, *Client) {
	cluster, c := clienttest.StartClient(t, 1)
	require.NoError(t, cluster.SetWatchOptions(fakeetcd.WatchOptions{Kine: true, ProgressInterval: 10 * time.Millisecond}))
	return cluster, c
}

func TestWatchesOnKine(t *testing.T) {
	cluster, c := startKine(t)
	ctx := clienttest.Within(t)
	for i := range 3 {
		_, err := c.Put(ctx, "a/k", fmt.Sprint(i)) // revisions 2, 3, 4
		require.NoError(t, err)
	}
	old := c.Watch(ctx, "a/", WithPrefix(), WithRev(3), WithPrevKV())
	assert.Equal(t, []int64{3, 4}, revisionsOf(t, old, 2))

	leave, left := context.WithCancel(ctx)
	gone := c.Watch(leave, "a/", WithPrefix())
	left()
	for range gone {
	}
	many := make([]WatchChan, 50)
	for i := range many {
		many[i] = c.Watch(ctx, fmt.Sprintf("b/%d", i), WithCreatedNotify())
		resp, ok := next(t, many[i])
		require.True(t, ok && resp.Created, "%v", resp.Err())
	}
	quiet := c.Watch(ctx, "c", WithProgressNotify())
	resp, ok := next(t, quiet)
	require.True(t, ok && resp.IsProgressNotify())

	for range 2 {
		cluster.Member(0).BreakConnections()
		for i := range many {
			clienttest.Put(t, cluster, fmt.Sprintf("b/%d", i), "")
		}
		for i, w := range many {
			resp, ok := next(t, w)
			require.True(t, ok)
			require.Len(t, resp.Events, 1)
			assert.Equal(t, fmt.Sprintf("b/%d", i), string(resp.Events[0].Kv.Key))
		}
	}
	clienttest.Put(t, cluster, "a/k", "after")
	assert.Len(t, revisionsOf(t, old, 1), 1)

	_, err := c.Compact(ctx, 4)
	require.NoError(t, err)
	resp, ok = next(t, c.Watch(ctx, "a/k", WithRev(2)))
	require.True(t, ok)
	assert.Equal(t, rpctypes.ErrCompacted, resp.Err())
}

// revisionsOf reads the next n events of a watch.
func revisionsOf(t *testing.T, w WatchChan, n int) []int64 {
	t.Helper()
	var revs []int64
	for len(revs) < n {
		resp, ok := next(t, w)
		require.True(t, ok && resp.Err() == nil, "%v", resp.Err())
		for _, ev := range resp.Events {
			revs = append(revs, ev.Kv.ModRevision)
		}
	}
	return revs
}
