package cache_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

const (
	// patience is far above what a test takes; one that hangs is ended by it.
	patience = 2 * time.Minute
	seeds    = 4
	steps    = 50
)

// TestAnswersAreTheServers compares what the cache answers with what a real server does, to gets of all kinds, among
// writes of all kinds. FuzzGet of clientv3/cache compares it with fakeetcd, which stands for the server there.
func TestAnswersAreTheServers(t *testing.T) {
	ctx := labtest.Within(t, patience)
	cluster := labtest.Start(t, lab.Config{Members: 1})
	client := connect(t, cluster)
	lease, err := client.Grant(ctx, 600)
	require.NoError(t, err)
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			prefix := fmt.Sprint(seed, "/")
			c, err := cache.New(client, cache.Config{Prefixes: []string{prefix}})
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.WaitSynced(ctx))
			for range steps {
				written, err := client.Do(ctx, writeOf(r, prefix, lease.ID))
				require.NoError(t, err)
				rev := written.Txn().Header.Revision
				get := getOf(r, prefix, rev)
				want, err := client.Do(ctx, get)
				require.NoError(t, err)
				for c.Freshness().Revision < rev { // a serializable get may be older than the write
					_, err := c.Get(ctx, prefix)
					require.NoError(t, err)
				}
				got, err := c.Do(ctx, get)
				require.NoError(t, err)
				require.Empty(t, cmp.Diff((*pb.RangeResponse)(want.Get()), (*pb.RangeResponse)(got.Get()), protocmp.Transform()), "%+v", get)
			}
			require.Positive(t, c.Stats().Hits)
		})
	}
}

// keyOf draws one of 13 keys below a prefix, in which bytes of both ends of the order are.
func keyOf(r *rand.Rand, prefix string) string {
	key := prefix
	for range r.IntN(3) {
		key += string("a\xff\x00"[r.IntN(3)])
	}
	return key
}

// writeOf draws a Txn that puts a key, or two, or deletes some.
func writeOf(r *rand.Rand, prefix string, lease clientv3.LeaseID) clientv3.Op {
	key, value := keyOf(r, prefix), fmt.Sprint(r.IntN(3))
	ops := [][]clientv3.Op{
		{clientv3.OpPut(key, value)},
		{clientv3.OpPut(key, value, clientv3.WithLease(lease))},
		{clientv3.OpPut(prefix+"1", value), clientv3.OpPut(prefix+"2", value), clientv3.OpDelete(prefix + "a")},
		{clientv3.OpDelete(key)},
		{clientv3.OpDelete(key, clientv3.WithPrefix())},
	}
	return clientv3.OpTxn(nil, ops[r.IntN(len(ops))], nil)
}

// getOf draws a get of a key or of a range, with options of all kinds.
func getOf(r *rand.Rand, prefix string, rev int64) clientv3.Op {
	key := keyOf(r, prefix)
	between := func() int64 { return 1 + r.Int64N(rev) }
	ranges := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithRange(keyOf(r, prefix)), clientv3.WithRange(prefix + "b")}
	var opts []clientv3.OpOption
	if i := r.IntN(len(ranges) + 1); i < len(ranges) {
		opts = append(opts, ranges[i])
	}
	for _, o := range []clientv3.OpOption{
		clientv3.WithLimit(r.Int64N(5)),
		clientv3.WithSort(clientv3.SortTarget(r.IntN(5)), clientv3.SortOrder(r.IntN(3))),
		clientv3.WithKeysOnly(), clientv3.WithCountOnly(), clientv3.WithSerializable(),
		clientv3.WithMinModRev(between()), clientv3.WithMaxModRev(between()),
		clientv3.WithMinCreateRev(between()), clientv3.WithMaxCreateRev(between()),
	} {
		if r.IntN(4) == 0 {
			opts = append(opts, o)
		}
	}
	return clientv3.OpGet(key, opts...)
}
