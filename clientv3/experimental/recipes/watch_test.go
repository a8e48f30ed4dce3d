package recipe_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	recipe "github.com/quorate/quorate/clientv3/experimental/recipes"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// The barrier changes between the read and the watch. A compaction removes the revision to watch from.
func TestBarrierBetweenReadAndWatch(t *testing.T) {
	releaseIt := func(t *testing.T, _ *fakeetcd.Cluster, b *recipe.Barrier) { require.NoError(t, b.Release()) }
	holdItAgain := func(t *testing.T, _ *fakeetcd.Cluster, b *recipe.Barrier) { require.NoError(t, b.Hold()) }
	compactIt := func(t *testing.T, cluster *fakeetcd.Cluster, _ *recipe.Barrier) { compact(t, cluster) }
	refuseReads := func(_ *testing.T, cluster *fakeetcd.Cluster, _ *recipe.Barrier) {
		cluster.On("Range", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
	}
	type steps = []func(*testing.T, *fakeetcd.Cluster, *recipe.Barrier)
	for name, tt := range map[string]struct {
		between steps
		held    bool // after them
		want    error
	}{
		"released and held again":            {steps{releaseIt, holdItAgain}, false, nil},
		"compacted":                          {steps{compactIt}, true, nil},
		"compacted, and the read is refused": {steps{compactIt, refuseReads}, false, rpctypes.ErrPermissionDenied},
		"released, compacted":                {steps{releaseIt, compactIt}, false, nil},
		"released and held again, compacted": {steps{releaseIt, holdItAgain, compactIt}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
				b := recipe.NewBarrier(client, "b")
				require.NoError(t, b.Hold())
				release := clienttest.Hold(cluster, "Watch")
				wait := call(b.Wait)
				for _, step := range tt.between {
					step(t, cluster, b)
				}
				requireWaiting(t, wait)
				release()
				if tt.held {
					requireWaiting(t, wait)
					require.NoError(t, b.Release())
				}
				require.Equal(t, tt.want, wait.result(t))
			})
		})
	}
}

type types = []mvccpb.Event_EventType

const (
	isPut    = mvccpb.Event_PUT
	isDelete = mvccpb.Event_DELETE
)

func TestWaitEvents(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		rev := cluster.Revision() + 1
		clienttest.Put(t, cluster, "k", "1")
		clienttest.Put(t, cluster, "k2", "2")
		remove(t, client, "k")
		clienttest.Put(t, cluster, "k", "3")
		remove(t, client, "k2")
		for name, tt := range map[string]struct {
			prefix bool
			evs    types
			value  string
			rev    int64
		}{
			"first put":                   {false, types{isPut}, "1", rev},
			"delete":                      {false, types{isDelete}, "", rev + 2},
			"put after delete":            {false, types{isDelete, isPut}, "3", rev + 3},
			"puts, with a delete between": {false, types{isPut, isPut}, "3", rev + 3},
			"puts with the prefix":        {true, types{isPut, isPut}, "2", rev + 1},
			"deletes with the prefix":     {true, types{isDelete, isDelete}, "", rev + 4},
		} {
			wait := recipe.WaitEvents
			if tt.prefix {
				wait = recipe.WaitPrefixEvents
			}
			ev, err := wait(client, "k", rev, tt.evs)
			require.NoError(t, err, name)
			require.Equal(t, tt.evs[len(tt.evs)-1], ev.Type, name)
			require.Equal(t, tt.value, string(ev.Kv.Value), name)
			require.Equal(t, tt.rev, ev.Kv.ModRevision, name)
		}
	})
}

func TestWaitEventsFromNowOn(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		clienttest.Put(t, cluster, "k", "before")
		var got *clientv3.Event
		wait := call(func() (err error) {
			got, err = recipe.WaitEvents(client, "k", 0, types{isPut})
			return err
		})
		requireWaiting(t, wait)
		clienttest.Put(t, cluster, "k", "after")
		succeed(t, wait)
		require.Equal(t, "after", string(got.Kv.Value))
	})
}

func TestWaitEventsErrors(t *testing.T) {
	waits := map[string]func(*clientv3.Client, string, int64, types) (*clientv3.Event, error){
		"key": recipe.WaitEvents, "prefix": recipe.WaitPrefixEvents,
	}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
				clienttest.Put(t, cluster, "k", "")
				_, err := wait(client, "k", cluster.Revision(), nil)
				require.ErrorContains(t, err, "no event to wait for")

				compact(t, cluster)
				_, err = wait(client, "k", 2, types{isPut})
				require.Equal(t, rpctypes.ErrCompacted, err)

				refused := clienttest.RefuseWatches(cluster, rpctypes.ErrGRPCPermissionDenied)
				_, err = wait(clienttest.Connect(t, cluster), "k", 0, types{isPut})
				require.Equal(t, rpctypes.ErrPermissionDenied, err)
				refused.Remove()

				waiting := call(func() error {
					_, err := wait(client, "k", 0, types{isDelete})
					return err
				})
				requireWaiting(t, waiting)
				require.NoError(t, client.Close())
				requireClientClosed(t, waiting.result(t))
			})
		})
	}
}

// brokenWatcher is one that a program has put in place of the client's.
type brokenWatcher struct {
	clientv3.Watcher
	ch clientv3.WatchChan
}

func (w brokenWatcher) Watch(context.Context, string, ...clientv3.OpOption) clientv3.WatchChan {
	return w.ch
}

func TestWaitEventsWithoutWatcher(t *testing.T) {
	_, client := clienttest.StartClient(t, 1)
	closed := make(chan clientv3.WatchResponse)
	close(closed)
	for name, ch := range map[string]clientv3.WatchChan{"nil": nil, "closed": closed} {
		client.Watcher = brokenWatcher{client.Watcher, ch}
		_, err := recipe.WaitEvents(client, "k", 0, types{isPut})
		require.ErrorIs(t, err, recipe.ErrNoWatcher, name)
	}
}
