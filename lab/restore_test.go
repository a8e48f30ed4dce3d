package lab_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	quorate "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/leasing"
	"github.com/quorate/quorate/clientv3/mirror"
	"github.com/quorate/quorate/clientv3/ordering"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// A member gets the data back that it had before: the cluster has the ID that it had, and a lower revision.
func TestARestoredClusterIsNoticed(t *testing.T) {
	t.Parallel()
	ctx := grpctest.Within(t, soon)
	cluster := start(t, lab.Config{Members: 1})
	m := cluster.Members()[0]
	c := labtest.Client(t, quorate.Config{Endpoints: cluster.Endpoints()})
	put := func(key, value string) int64 {
		resp, err := c.Put(ctx, key, value)
		require.NoError(t, err)
		return resp.Header.Revision
	}
	backup := put("k", "in the backup")
	data, kept := filepath.Join(cluster.Dir(), m.Name()), filepath.Join(t.TempDir(), "backup")
	require.NoError(t, m.Kill())
	require.NoError(t, os.CopyFS(kept, os.DirFS(data)))
	require.NoError(t, m.Restart(ctx))

	watch := c.Watch(ctx, "k")
	syncer := mirror.NewSyncer(c, "k", 0)
	pages, errs := syncer.SyncBase(ctx)
	for range pages { // they are not checked
	}
	require.NoError(t, <-errs)
	updates := syncer.SyncUpdates(ctx)
	ordered := ordering.NewKV(c, ordering.NewOrderViolationSwitchEndpointClosure(c))
	cached, closeCache, err := leasing.NewKV(c, "leases/")
	require.NoError(t, err)
	t.Cleanup(closeCache)
	memory, err := cache.New(c, cache.Config{Prefixes: []string{"k"}})
	require.NoError(t, err)
	t.Cleanup(memory.Close)
	require.NoError(t, memory.WaitSynced(ctx))
	var last int64
	for i := range 20 {
		last = put("k", fmt.Sprint(i))
		for _, w := range []quorate.WatchChan{watch, updates} {
			resp := <-w
			require.NoError(t, resp.Err())
			require.Equal(t, last, resp.Events[0].Kv.ModRevision)
		}
	}
	for _, kv := range []quorate.KV{ordered, cached, memory} {
		resp, err := kv.Get(ctx, "k")
		require.NoError(t, err)
		require.Equal(t, "19", string(resp.Kvs[0].Value))
	}

	require.NoError(t, m.Kill())
	require.NoError(t, os.RemoveAll(data))
	require.NoError(t, os.CopyFS(data, os.DirFS(kept)))
	require.NoError(t, m.Restart(ctx))
	requireChanged := func(err error) {
		t.Helper()
		var changed *quorate.ClusterChangedError
		require.ErrorAs(t, err, &changed)
		require.Equal(t, changed.OldClusterID, changed.NewClusterID)
		require.GreaterOrEqual(t, changed.OldRevision, last)
		require.GreaterOrEqual(t, changed.NewRevision, backup)
		require.Less(t, changed.NewRevision, last)
	}
	resp, err := memory.Get(ctx, "k") // the first answer already
	require.NoError(t, err)
	require.Equal(t, "in the backup", string(resp.Kvs[0].Value))
	for _, w := range []quorate.WatchChan{watch, updates} { // without a call
		select {
		case resp := <-w:
			requireChanged(resp.Err())
		case <-ctx.Done():
			require.Fail(t, "a watch is silent")
		}
	}
	_, err = ordered.Get(ctx, "k")
	requireChanged(err)
	require.Eventually(t, func() bool {
		resp, err := cached.Get(ctx, "k")
		return err == nil && string(resp.Kvs[0].Value) == "in the backup"
	}, time.Minute, 10*time.Millisecond)

	require.Eventually(t, func() bool {
		resp, err := memory.Get(ctx, "k", quorate.WithSerializable())
		return err == nil && string(resp.Kvs[0].Value) == "in the backup" && memory.Stats().Loads == 2
	}, time.Minute, 10*time.Millisecond)

	// The new history is as good as any.
	put("k", "new")
	_, err = ordered.Put(ctx, "l", "it is carried out")
	require.NoError(t, err)
	event := <-c.Watch(ctx, "k", quorate.WithRev(backup))
	require.NoError(t, event.Err())
	assert.Equal(t, "in the backup", string(event.Events[0].Kv.Value))
}
