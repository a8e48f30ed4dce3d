package cache_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

// keyOf draws a key below a/, so that many collide.
func keyOf(r *rand.Rand) string {
	key := "a/"
	for range r.IntN(3) {
		key += string("ab\xff\x00"[r.IntN(4)])
	}
	return key
}

// getOf draws a get of keys below a/, with options of all kinds.
func getOf(r *rand.Rand, rev int64) clientv3.Op {
	var opts []clientv3.OpOption
	some := func(n int, o clientv3.OpOption) {
		if r.IntN(n) == 0 {
			opts = append(opts, o)
		}
	}
	key := keyOf(r)
	switch r.IntN(5) {
	case 0:
		key = "a/"
		some(1, clientv3.WithPrefix())
	case 1:
		some(1, clientv3.WithPrefix())
	case 2:
		some(1, clientv3.WithRange(keyOf(r)))
	case 3:
		some(1, clientv3.WithRange("a0"))
	}
	between := func() int64 { return 1 + r.Int64N(rev) }
	some(2, clientv3.WithLimit(r.Int64N(5)))
	some(3, clientv3.WithSort(clientv3.SortTarget(r.IntN(5)), clientv3.SortOrder(r.IntN(3))))
	some(6, clientv3.WithKeysOnly())
	some(8, clientv3.WithCountOnly())
	some(8, clientv3.WithSerializable())
	some(6, clientv3.WithMinModRev(between()))
	some(6, clientv3.WithMaxModRev(between()))
	some(6, clientv3.WithMinCreateRev(between()))
	some(6, clientv3.WithMaxCreateRev(between()))
	some(4, clientv3.WithRev(between()))
	return clientv3.OpGet(key, opts...)
}

// FuzzGet compares what the cache answers with what the server does, to gets with options of all kinds, among writes
// of all kinds.
func FuzzGet(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		cluster, client := clienttest.StartClient(t, 1)
		c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}, MaxWait: testTimeout})
		awaitServing(t, c, "a/")
		grant := clienttest.Must(client.Grant(clienttest.Within(t), 60))
		for range 40 {
			write(t, r, client, grant.ID)
			op := getOf(r, cluster.Revision())
			want := clienttest.Must(client.Do(clienttest.Within(t), op))
			if op.IsSerializable() || op.Rev() != 0 {
				clienttest.Must(c.Get(clienttest.Within(t), "a/")) // the cache has what is there
			}
			before := c.Stats()
			got := clienttest.Must(c.Do(clienttest.Within(t), op))
			if op.Rev() == 0 {
				require.Equal(t, before.Hits+1, c.Stats().Hits, "it is not answered from memory")
			}
			require.Empty(t, cmp.Diff((*pb.RangeResponse)(want.Get()), (*pb.RangeResponse)(got.Get()), protocmp.Transform()),
				"seed %d: %+v", seed, op)
			overwrite(got.Get())
		}
	})
}

func write(t *testing.T, r *rand.Rand, client *clientv3.Client, lease clientv3.LeaseID) {
	t.Helper()
	ctx := clienttest.Within(t)
	var err error
	switch r.IntN(6) {
	case 0:
		_, err = client.Delete(ctx, keyOf(r), clientv3.WithPrefix())
	case 1:
		_, err = client.Delete(ctx, keyOf(r))
	case 2:
		_, err = client.Put(ctx, keyOf(r), "leased", clientv3.WithLease(lease))
	case 3:
		_, err = client.Txn(ctx).Then(
			clientv3.OpPut("a/1", fmt.Sprint(r.IntN(3))), clientv3.OpPut("a/2", fmt.Sprint(r.IntN(3))), clientv3.OpDelete("a/a"),
		).Commit()
	default:
		_, err = client.Put(ctx, keyOf(r), fmt.Sprint(r.IntN(3)))
	}
	require.NoError(t, err)
}

// overwrite overwrites a response, as its caller may.
func overwrite(resp *clientv3.GetResponse) {
	for _, kv := range resp.Kvs {
		clear(kv.Key[:cap(kv.Key)])
		clear(kv.Value[:cap(kv.Value)])
		kv.ModRevision = 0
	}
	clear(resp.Kvs)
	resp.Header.Revision = 0
}
