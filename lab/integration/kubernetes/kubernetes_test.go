package kubernetes_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/kubernetes"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// TestServer runs everything on one member; each part has keys of its own.
func TestServer(t *testing.T) {
	cluster := labtest.Start(t, lab.Config{Members: 1})
	client, err := kubernetes.New(clientv3.Config{Endpoints: cluster.Endpoints(), Logger: zap.NewNop()})
	require.NoError(t, err)
	defer client.Close()
	ctx := labtest.Context(t)
	for name, test := range map[string]func(*testing.T, context.Context, *kubernetes.Client){
		"contention": testContention,
		"listing":    testListing,
		"lease":      testLease,
	} {
		t.Run(name, func(t *testing.T) { test(t, ctx, client) })
	}
}

// testContention counts with many writers, each of which goes on from what stood in its way: every
// count is made once.
func testContention(t *testing.T, ctx context.Context, client *kubernetes.Client) {
	const writers, each, key = 8, 10, "/contention/counter"
	_, err := client.OptimisticPut(ctx, key, []byte("0"), 0, kubernetes.PutOptions{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			current, err := client.Get(ctx, key, kubernetes.GetOptions{})
			if !assert.NoError(t, err) {
				return
			}
			kv := current.KV
			for done := 0; done < each; {
				n, err := strconv.Atoi(string(kv.Value))
				assert.NoError(t, err)
				next := []byte(strconv.Itoa(n + 1))
				resp, err := client.OptimisticPut(ctx, key, next, kv.ModRevision, kubernetes.PutOptions{GetOnFailure: true})
				if !assert.NoError(t, err) {
					return
				}
				if !resp.Succeeded {
					kv = resp.KV
					continue
				}
				kv.Value, kv.ModRevision = next, resp.Revision
				done++
			}
		})
	}
	wg.Wait()
	final, err := client.Get(ctx, key, kubernetes.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(writers*each), string(final.KV.Value))
	deleted, err := client.OptimisticDelete(ctx, key, final.KV.ModRevision, kubernetes.DeleteOptions{})
	require.NoError(t, err)
	require.True(t, deleted.Succeeded)
}

// testListing reads pages at one revision while keys come and go, until that revision is compacted.
func testListing(t *testing.T, ctx context.Context, client *kubernetes.Client) {
	const prefix, keys = "/listing/", 10
	var want []string
	for i := range keys {
		key := fmt.Sprintf("%s%02d", prefix, i)
		want = append(want, key)
		_, err := client.OptimisticPut(ctx, key, []byte("v"), 0, kubernetes.PutOptions{})
		require.NoError(t, err)
	}
	var got []string
	opts := kubernetes.ListOptions{Limit: 3}
	for {
		page, err := client.List(ctx, prefix, opts)
		require.NoError(t, err)
		for _, kv := range page.Kvs {
			got = append(got, string(kv.Key))
		}
		if page.Count == int64(len(page.Kvs)) {
			break
		}
		last := got[len(got)-1]
		opts.Continue = last + "\x00"
		if opts.Revision == 0 {
			opts.Revision = page.Revision
		}
		_, err = client.Delete(ctx, last)
		require.NoError(t, err)
		_, err = client.Put(ctx, last+"-late", "v")
		require.NoError(t, err)
	}
	require.Equal(t, want, got)
	count, err := client.Count(ctx, prefix, kubernetes.CountOptions{})
	require.NoError(t, err)
	require.Equal(t, int64(keys), count, "as many were added as deleted")

	now, err := client.Get(ctx, prefix, kubernetes.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, now.KV)
	_, err = client.Compact(ctx, now.Revision)
	require.NoError(t, err)
	_, err = client.List(ctx, prefix, opts)
	require.Equal(t, rpctypes.ErrCompacted, err)
	_, err = client.Get(ctx, want[0], kubernetes.GetOptions{Revision: opts.Revision})
	require.Equal(t, rpctypes.ErrCompacted, err)
	_, err = client.List(ctx, prefix, kubernetes.ListOptions{Revision: now.Revision + 1000})
	require.Equal(t, rpctypes.ErrFutureRev, err)

	all, err := client.List(ctx, "", kubernetes.ListOptions{})
	require.NoError(t, err)
	everything, err := client.Count(ctx, "", kubernetes.CountOptions{})
	require.NoError(t, err)
	require.Len(t, all.Kvs, int(everything))
	require.GreaterOrEqual(t, everything, count)
}

// testLease: a key goes with its lease, and stays without one.
func testLease(t *testing.T, ctx context.Context, client *kubernetes.Client) {
	lease, err := client.Grant(ctx, 60)
	require.NoError(t, err)
	for _, key := range []string{"/lease/leased", "/lease/detached"} {
		_, err = client.OptimisticPut(ctx, key, []byte("v"), 0, kubernetes.PutOptions{LeaseID: lease.ID})
		require.NoError(t, err)
	}
	kept, err := client.Get(ctx, "/lease/detached", kubernetes.GetOptions{})
	require.NoError(t, err)
	_, err = client.OptimisticPut(ctx, "/lease/detached", []byte("v"), kept.KV.ModRevision, kubernetes.PutOptions{})
	require.NoError(t, err)
	_, err = client.Revoke(ctx, lease.ID)
	require.NoError(t, err)
	left, err := client.List(ctx, "/lease/", kubernetes.ListOptions{})
	require.NoError(t, err)
	require.Len(t, left.Kvs, 1)
	require.Equal(t, "/lease/detached", string(left.Kvs[0].Key))
	_, err = client.OptimisticPut(ctx, "/lease/leased", nil, 0, kubernetes.PutOptions{LeaseID: lease.ID})
	require.Equal(t, rpctypes.ErrLeaseNotFound, err)
}
