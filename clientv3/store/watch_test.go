package store_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	. "github.com/quorate/quorate/clientv3/store"
	"github.com/quorate/quorate/internal/grpctest"
)

// TestWatchAfterACompaction breaks the connection of a watch, and compacts changes before it is back.
func TestWatchAfterACompaction(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, s *Store[Config]) {
		for i := range 300 { // two pages
			clienttest.Put(t, cluster, fmt.Sprintf("configs/%03d", i), fmt.Sprintf(`{"Replicas":%d}`, i))
		}
		clienttest.Put(t, cluster, "configs/bad", "no JSON")
		f := follow(t.Context(), t, s)
		for i := range 300 {
			f.put(fmt.Sprintf("%03d", i), i)
		}
		c, err := f.failed()
		require.ErrorIs(t, err, ErrDecode)
		require.Equal(t, "bad", c.Key)
		f.synced()
		clienttest.Put(t, cluster, "configs/web", `{"Replicas":1}`)
		f.put("web", 1)
		clienttest.Put(t, cluster, "configs/bad", "still no JSON")
		_, err = f.failed()
		require.ErrorContains(t, err, `store: watch "configs/bad" (json): the value cannot be decoded`)

		back := make(chan struct{})
		held := cluster.On("Watch", func(c *fakeetcd.Call) {
			if c.Hold(back) == nil {
				_, _ = c.Execute()
			}
		})
		for _, m := range cluster.Members() {
			m.BreakConnections()
		}
		synctest.Wait()
		clienttest.Must(client.Delete(t.Context(), "configs/00", clientv3.WithPrefix()))
		clienttest.Put(t, cluster, "configs/005", `{"Replicas":55}`)
		clienttest.Put(t, cluster, "configs/web", `{"Replicas":2}`)
		clienttest.Put(t, cluster, "configs/web", `{"Replicas":3}`)
		require.NoError(t, cluster.Compact(clienttest.Put(t, cluster, "configs/zoo", `{"Replicas":9}`)))
		close(back)

		f.put("005", 55)
		f.put("web", 3)
		f.put("zoo", 9)
		for i := range 10 {
			if i != 5 {
				f.deleted(fmt.Sprintf("00%d", i))
			}
		}
		f.synced()
		require.Positive(t, held.Ran())
		clienttest.Must(s.Delete(t.Context(), "zoo"))
		f.deleted("zoo")
	})
}

func TestWatchOfARange(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, _ *clientv3.Client, s *Store[Config]) {
		prefix, between := follow(t.Context(), t, s, s.Prefix("a/")), follow(t.Context(), t, s, s.Between("a/2", "b"))
		clienttest.Put(t, cluster, "configs/a/1", `{"Replicas":1}`)
		clienttest.Put(t, cluster, "configs/a/2", `{"Replicas":2}`)
		prefix.put("a/1", 1)
		prefix.put("a/2", 2)
		prefix.synced()
		between.put("a/2", 2)
		between.synced()
		clienttest.Put(t, cluster, "configs/b", `{}`)
		clienttest.Put(t, cluster, "configs/a/1", `{"Replicas":3}`)
		clienttest.Put(t, cluster, "configs/a/4", `{"Replicas":4}`)
		prefix.put("a/1", 3)
		prefix.put("a/4", 4)
		between.put("a/4", 4)
	})
}

// errorWithEvent is a Watcher whose watches end with a response that has an error and an event.
type errorWithEvent struct{ clientv3.Watcher }

func (errorWithEvent) Watch(context.Context, string, ...clientv3.OpOption) clientv3.WatchChan {
	resp := clientv3.WatchEnd(rpctypes.ErrPermissionDenied)
	resp.Events = []*clientv3.Event{{Kv: &mvccpb.KeyValue{Key: []byte("configs/last"), Value: []byte(`{"Replicas":1}`), ModRevision: 9}}}
	ch := make(chan clientv3.WatchResponse, 1)
	ch <- resp
	return ch
}

func TestWatchEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client, s *Store[Config]) {
		ctx, cancel := context.WithCancel(t.Context())
		f := follow(ctx, t, s)
		f.synced()
		cancel()
		_, err := f.failed()
		require.ErrorIs(t, err, context.Canceled)
		f.ended()

		cluster.Once("Range", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		f = follow(t.Context(), t, s)
		_, err = f.failed()
		require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
		require.ErrorContains(t, err, `store: watch "configs/" (json)`)
		f.ended()

		f = follow(t.Context(), t, New(client.KV, "configs/", asJSON, WithWatcher(errorWithEvent{})))
		f.synced()
		f.put("last", 1)
		_, err = f.failed()
		require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)

		for want, f := range map[string]follower{
			"WithWatcher":            follow(t.Context(), t, New(client.KV, "configs/", asJSON)),
			"no other options":       follow(t.Context(), t, s, clientv3.WithRev(1)),
			"use Prefix and Between": follow(t.Context(), t, s, clientv3.WithFromKey()),
		} {
			_, err = f.failed()
			require.ErrorContains(t, err, want)
			f.ended()
		}
	})
}

// TestWatchOfARestoredCluster restores the cluster from a backup, so that revisions belong to another history.
func TestWatchOfARestoredCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clusters := [2]*fakeetcd.Cluster{clienttest.Start(t, 1), clienttest.Start(t, 1)}
		var present atomic.Int32
		dial := func(ctx context.Context, addr string) (net.Conn, error) {
			return clusters[present.Load()].DialContext(ctx, addr)
		}
		client := clienttest.Connect(t, clusters[0], clientv3.Config{DialOptions: []grpc.DialOption{grpc.WithContextDialer(dial)}})
		for i, c := range clusters {
			clienttest.Put(t, c, "configs/equal", fmt.Sprintf(`{"Replicas":%d}`, i+1)) // at the same revision
		}
		for i := range 300 { // two pages
			clienttest.Put(t, clusters[0], fmt.Sprintf("many/%03d", i), "{}")
		}
		clienttest.Put(t, clusters[0], "configs/lost", `{"Replicas":3}`)
		f := follow(t.Context(), t, New(client, "configs/", asJSON))
		f.put("equal", 1)
		f.put("lost", 3)
		f.synced()
		for range 10 {
			clienttest.Put(t, clusters[0], "configs/lost", `{"Replicas":4}`)
			f.put("lost", 4)
		}
		slow := follow(t.Context(), t, New(client, "configs/", asJSON))
		slow.put("equal", 1)
		listing := follow(t.Context(), t, New(client, "many/", asJSON))
		listing.put("000", 0)
		present.Store(1)
		clusters[0].Member(0).Stop()
		f.put("equal", 2)
		f.deleted("lost")
		f.synced()
		slow.put("lost", 4) // is in its list
		slow.synced()
		slow.put("equal", 2)
		slow.deleted("lost")
		slow.synced()
		change := listing.change()
		for change.Type != Synced { // no error
			change = listing.change()
		}
	})
}

// TestWatchThatStopsEarly leaves no goroutine.
func TestWatchThatStopsEarly(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, _ *clientv3.Client, s *Store[Config]) {
		clienttest.Put(t, cluster, "configs/a", `{}`)
		for stop := range 3 { // at a key, at Synced, at a change
			n := 0
			for c, err := range s.Watch(t.Context()) {
				require.NoError(t, err)
				if n == stop {
					break
				}
				n++
				if c.Type == Synced {
					clienttest.Put(t, cluster, "configs/a", `{}`)
				}
			}
			require.Equal(t, stop, n)
		}
	})
}

// The list after a compaction fails for longer than a call is repeated.
func TestWatchOutlastsALossOfTheLeaderBeforeAList(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, _ *clientv3.Client, s *Store[Config]) {
		f := follow(t.Context(), t, s)
		f.synced()
		for _, m := range cluster.Members() {
			m.Stop()
		}
		clienttest.Put(t, cluster, "configs/a", `{"Replicas":1}`)
		require.NoError(t, cluster.Compact(clienttest.Put(t, cluster, "configs/a", `{"Replicas":2}`)))
		var lists atomic.Int32
		cluster.On("Range", func(c *fakeetcd.Call) {
			if lists.Add(1) <= 20 {
				c.Answer(nil, rpctypes.ErrGRPCNoLeader)
			}
		})
		for _, m := range cluster.Members() {
			m.Start()
		}
		c, err, ok := f.next()
		require.NoError(t, err)
		assert.True(t, ok)
		assert.Equal(t, 2, c.Value.Replicas)
		assert.Greater(t, lists.Load(), int32(20))
	})
}

// While each list fails, as those of a store that is being restored, lists become rare.
func TestListsThatFailAreFew(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, _ *clientv3.Client, s *Store[Config]) {
		lists := cluster.On("Range", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCFutureRev) })
		_, err, _ := follow(grpctest.Within(t, time.Minute), t, s).next()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Less(t, lists.Ran(), 60)
	})
}

func TestChangeTypeNames(t *testing.T) {
	require.Equal(t, "synced", Synced.String())
	require.Equal(t, "ChangeType(4)", (Synced + 1).String())
}
