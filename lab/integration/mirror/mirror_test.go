// Package mirror_test copies a real store while it is written to and compacted, as a
// user who may read nothing else.
package mirror_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mirror"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// start returns a client of a new cluster.
func start(t *testing.T) (*lab.Cluster, *clientv3.Client) {
	t.Helper()
	cluster := labtest.Start(t, lab.Config{Members: 1, Args: []string{"--bcrypt-cost=4"}})
	return cluster, labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()})
}

// TestMirror copies a prefix and follows it while its keys are written and deleted.
func TestMirror(t *testing.T) {
	const keys, rounds = 1500, 3
	ctx := labtest.Context(t)
	cluster, c := start(t)
	key := func(i int) string { return fmt.Sprintf("in/%04d", i) }
	var ops []clientv3.Op
	for i := range keys {
		if ops = append(ops, clientv3.OpPut(key(i), "base")); len(ops) == 100 {
			_, err := c.Txn(ctx).Then(ops...).Commit()
			require.NoError(t, err)
			ops = nil
		}
	}
	_, err := c.Put(ctx, "out/", "nobody's business")
	require.NoError(t, err)
	_, user := labtest.EnableAuth(ctx, t, cluster, "mirror", clientv3.PermReadWrite, "in/")

	syncer := mirror.NewSyncer(user, "in/", 0)
	pages, errs := syncer.SyncBase(ctx)
	for round := range rounds {
		for i := range 20 {
			_, err := user.Put(ctx, key(70*i), fmt.Sprint(round))
			require.NoError(t, err)
			_, err = user.Delete(ctx, key(70*i+1))
			require.NoError(t, err)
		}
	}
	last, err := user.Put(ctx, "in/the end", "")
	require.NoError(t, err)

	copied := map[string]string{}
	for page := range pages {
		for _, kv := range page.Kvs {
			copied[string(kv.Key)] = string(kv.Value)
		}
	}
	require.NoError(t, <-errs)
	require.Len(t, copied, keys)
	for rev, updates := int64(0), syncer.SyncUpdates(ctx); rev < last.Header.Revision; {
		resp := <-updates
		require.NoError(t, resp.Err())
		for _, event := range resp.Events {
			rev = event.Kv.ModRevision
			if copied[string(event.Kv.Key)] = string(event.Kv.Value); event.Type == clientv3.EventTypeDelete {
				delete(copied, string(event.Kv.Key))
			}
		}
	}
	now, err := user.Get(ctx, "in/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, copied, len(now.Kvs))
	for _, kv := range now.Kvs {
		require.Equal(t, string(kv.Value), copied[string(kv.Key)])
	}

	pages, errs = mirror.NewSyncer(user, "", 0).SyncBase(ctx)
	require.Empty(t, pages)
	require.Equal(t, rpctypes.ErrPermissionDenied, <-errs)
}

// TestCompaction compacts the revision of a base that is being read.
func TestCompaction(t *testing.T) {
	ctx := labtest.Context(t)
	_, c := start(t)
	const pageAndMore = 150
	var rev int64
	for i := range pageAndMore {
		put, err := c.Put(ctx, fmt.Sprintf("k%03d", i), "v")
		require.NoError(t, err)
		rev = put.Header.Revision
	}
	c.KV = compacting{c.KV, rev}
	syncer := mirror.NewSyncer(c, "", rev-1)
	pages, errs := syncer.SyncBase(ctx)
	n := 0
	for page := range pages {
		n += len(page.Kvs)
	}
	require.Equal(t, rpctypes.ErrCompacted, <-errs)
	require.Equal(t, 100, n, "the first page")

	_, err := c.Put(ctx, "k", "v")
	require.NoError(t, err)
	_, err = c.Compact(ctx, rev+1)
	require.NoError(t, err)
	resp := <-syncer.SyncUpdates(ctx)
	require.Equal(t, rpctypes.ErrCompacted, resp.Err())
}

// compacting compacts after the first read.
type compacting struct {
	clientv3.KV
	rev int64
}

func (c compacting) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := c.KV.Get(ctx, key, opts...)
	if err != nil {
		return nil, err
	}
	if resp.More {
		_, err = c.Compact(ctx, c.rev)
	}
	return resp, err
}
