package recipe_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	recipe "github.com/quorate/quorate/clientv3/experimental/recipes"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestBarrier(t *testing.T) {
	cluster, client := start(t)
	b := recipe.NewBarrier(client, "b")
	put(t, client, "b-2", "")
	put(t, client, "b/x", "")
	require.NoError(t, b.Wait(), "it is not held")

	require.NoError(t, b.Hold())
	require.Equal(t, recipe.ErrKeyExists, b.Hold())
	require.NotNil(t, cluster.Get("b"))
	waits := make([]pending, 3)
	for i := range waits {
		waits[i] = call(recipe.NewBarrier(clienttest.Connect(t, cluster), "b").Wait)
		waits[i].until(t, cluster, "Watch", i+1)
	}
	put(t, client, "b", "another value")
	for _, w := range waits {
		w.still(t)
	}
	require.NoError(t, b.Release())
	for _, w := range waits {
		require.NoError(t, w.result(t))
	}
	require.NoError(t, b.Release(), "it need not be held")
}

// What happens between the read and the watch. Where the history goes, the revision to watch from goes with it.
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
			cluster, client := start(t)
			b := recipe.NewBarrier(client, "b")
			require.NoError(t, b.Hold())
			release := holdWatch(t, cluster)
			wait := call(b.Wait)
			wait.until(t, cluster, "Watch", 1)
			for _, step := range tt.between {
				step(t, cluster, b)
			}
			release()
			if tt.held {
				wait.until(t, cluster, "Range", 2)
				require.NoError(t, b.Release())
			}
			require.Equal(t, tt.want, wait.result(t))
		})
	}
}

func TestBarrierClientClosed(t *testing.T) {
	cluster, client := start(t)
	b := recipe.NewBarrier(client, "b")
	require.NoError(t, b.Hold())
	wait := call(b.Wait)
	wait.until(t, cluster, "Watch", 1)
	require.NoError(t, client.Close())
	requireClientClosed(t, wait.result(t))

	requireClientClosed(t, call(b.Wait).result(t))
	requireClientClosed(t, call(b.Hold).result(t))
	requireClientClosed(t, call(b.Release).result(t))
}

type types = []mvccpb.Event_EventType

const (
	isPut    = mvccpb.Event_PUT
	isDelete = mvccpb.Event_DELETE
)

func TestWaitEvents(t *testing.T) {
	cluster, client := start(t)
	rev := cluster.Revision() + 1
	put(t, client, "k", "1")
	put(t, client, "k2", "2")
	remove(t, client, "k")
	put(t, client, "k", "3")
	remove(t, client, "k2")
	tests := []struct {
		name   string
		prefix bool
		evs    types
		value  string
		rev    int64
	}{
		{"first put", false, types{isPut}, "1", rev},
		{"delete", false, types{isDelete}, "", rev + 2},
		{"put after delete", false, types{isDelete, isPut}, "3", rev + 3},
		{"puts, with a delete between", false, types{isPut, isPut}, "3", rev + 3},
		{"puts with the prefix", true, types{isPut, isPut}, "2", rev + 1},
		{"deletes with the prefix", true, types{isDelete, isDelete}, "", rev + 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wait := recipe.WaitEvents
			if tt.prefix {
				wait = recipe.WaitPrefixEvents
			}
			ev, err := wait(client, "k", rev, tt.evs)
			require.NoError(t, err)
			require.Equal(t, tt.evs[len(tt.evs)-1], ev.Type)
			require.Equal(t, tt.value, string(ev.Kv.Value))
			require.Equal(t, tt.rev, ev.Kv.ModRevision)
		})
	}
}

func TestWaitEventsFromNowOn(t *testing.T) {
	cluster, client := start(t)
	put(t, client, "k", "before")
	wait := call(func() error {
		ev, err := recipe.WaitEvents(client, "k", 0, types{isPut})
		if err == nil && string(ev.Kv.Value) != "after" {
			err = fmt.Errorf("an event of the past: %v", ev)
		}
		return err
	})
	wait.until(t, cluster, "Watch", 1)
	for len(wait) == 0 { // the watch may not have been created yet
		put(t, client, "k", "after")
	}
	require.NoError(t, wait.result(t))
}

func TestWaitEventsErrors(t *testing.T) {
	waits := map[string]func(*clientv3.Client, string, int64, types) (*clientv3.Event, error){
		"key": recipe.WaitEvents, "prefix": recipe.WaitPrefixEvents,
	}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			cluster, client := start(t)
			put(t, client, "k", "")
			_, err := wait(client, "k", cluster.Revision(), nil)
			require.ErrorContains(t, err, "no event to wait for")

			compact(t, cluster)
			_, err = wait(client, "k", 2, types{isPut})
			require.Equal(t, rpctypes.ErrCompacted, err)

			refused := refuseWatches(cluster)
			_, err = wait(clienttest.Connect(t, cluster), "k", 0, types{isPut})
			require.Equal(t, rpctypes.ErrPermissionDenied, err)
			refused.Remove()

			waiting := call(func() error {
				_, err := wait(client, "k", 0, types{isDelete})
				return err
			})
			waiting.until(t, cluster, "Watch", 1)
			require.NoError(t, client.Close())
			requireClientClosed(t, waiting.result(t))
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
	_, client := start(t)
	closed := make(chan clientv3.WatchResponse)
	close(closed)
	for name, ch := range map[string]clientv3.WatchChan{"nil": nil, "closed": closed} {
		client.Watcher = brokenWatcher{client.Watcher, ch}
		_, err := recipe.WaitEvents(client, "k", 0, types{isPut})
		require.ErrorIs(t, err, recipe.ErrNoWatcher, name)
	}
}
