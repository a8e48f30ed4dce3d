package leasing_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/leasing"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each test here fails with the official package.

const prefix = "_leasing/"

func newKV(t *testing.T, c *clientv3.Client, opts ...concurrency.SessionOption) clientv3.KV {
	t.Helper()
	kv, closeKV, err := leasing.NewKV(c, prefix, opts...)
	require.NoError(t, err)
	t.Cleanup(closeKV)
	return kv
}

// withKV runs a test in virtual time, with a KV over a cluster in memory.
func withKV(t *testing.T, test func(t *testing.T, cluster *fakeetcd.Cluster, kv clientv3.KV)) {
	t.Helper()
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		test(t, cluster, newKV(t, client))
	})
}

// own makes kv own a key that can be acquired at once.
func own(t *testing.T, cluster *fakeetcd.Cluster, kv clientv3.KV, key string) {
	t.Helper()
	clienttest.Get(t, kv, key)
	require.NotNil(t, cluster.Get(prefix+key), "the key is not owned")
	requireFromMemory(t, cluster, kv, key)
}

func requireFromMemory(t *testing.T, cluster *fakeetcd.Cluster, kv clientv3.KV, key string) {
	t.Helper()
	before := requests(cluster)
	clienttest.Get(t, kv, key)
	require.Equal(t, before, requests(cluster), "%q was not answered from the cache", key)
}

// awaitOwned makes kv own a key that it has released, and therefore leaves alone for a while, or of which there is a leasing key that it
// has to delete first.
func awaitOwned(t *testing.T, cluster *fakeetcd.Cluster, kv clientv3.KV, key string) {
	t.Helper()
	for range 2 {
		time.Sleep(10 * time.Second)
		clienttest.Get(t, kv, key)
	}
	requireFromMemory(t, cluster, kv, key)
}

func requests(cluster *fakeetcd.Cluster) int { return cluster.Count("Range") + cluster.Count("Txn") }

// requireTruth checks that kv answers what the server holds.
func requireTruth(t *testing.T, cluster *fakeetcd.Cluster, kv clientv3.KV, key string) {
	t.Helper()
	resp := clienttest.Get(t, kv, key)
	want := cluster.Get(key)
	if want == nil {
		require.Empty(t, resp.Kvs)
		return
	}
	require.Len(t, resp.Kvs, 1)
	require.Equal(t, want.String(), resp.Kvs[0].String())
}

// requireFromServer is requireTruth, and checks that kv asks the server.
func requireFromServer(t *testing.T, cluster *fakeetcd.Cluster, kv clientv3.KV, key string) {
	t.Helper()
	before := requests(cluster)
	requireTruth(t, cluster, kv, key)
	require.Greater(t, requests(cluster), before, "%q was answered from the cache without being owned", key)
}

// A write with a lost answer is not sent again.
func TestWriteWhoseAnswerIsLostIsNotRepeated(t *testing.T) {
	withKV(t, func(t *testing.T, cluster *fakeetcd.Cluster, kv clientv3.KV) {
		own(t, cluster, kv, "k")
		cluster.Once("Txn", clienttest.LoseAnswer)
		_, err := kv.Put(t.Context(), "k", "v")
		require.Error(t, err)
		requireTruth(t, cluster, kv, "k")
		require.Equal(t, 1, cluster.PutCount("k"))
	})
}

// A key with a lease is deleted without a write when the lease ends, so it is not owned.
func TestPutWithLeaseEndsOwnership(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		kv := newKV(t, client)
		lease := clienttest.Must(client.Grant(t.Context(), 60))
		for name, write := range map[string]func(key string) error{
			"put": func(key string) error {
				_, err := kv.Put(t.Context(), key, "v", clientv3.WithLease(lease.ID))
				return err
			},
			"txn": func(key string) error {
				_, err := kv.Txn(t.Context()).Then(clientv3.OpPut(key, "v", clientv3.WithLease(lease.ID))).Commit()
				return err
			},
		} {
			own(t, cluster, kv, name)
			require.NoError(t, write(name))
			requireTruth(t, cluster, kv, name)
		}
		require.NoError(t, cluster.ExpireLease(int64(lease.ID)))
		requireTruth(t, cluster, kv, "put")
		requireTruth(t, cluster, kv, "txn")
	})
}

// The options of a get that tries to acquire the key apply to its response, whether or not the key is acquired.
func TestOptionsOfFirstGet(t *testing.T) {
	withKV(t, func(t *testing.T, cluster *fakeetcd.Cluster, owner clientv3.KV) {
		other := newKV(t, clienttest.Connect(t, cluster))
		clienttest.Put(t, cluster, "k", "v")
		for _, kv := range []clientv3.KV{owner, other} {
			resp := clienttest.Get(t, kv, "k", clientv3.WithKeysOnly())
			require.Empty(t, resp.Kvs[0].Value)
		}
		requireFromMemory(t, cluster, owner, "k")
	})
}

// The context of the acquiring get ends: the owner is still asked to release the key after its watch broke with a gap.
func TestRevocationIsSeenAfterGap(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		owner, other := newKV(t, clienttest.Connect(t, cluster)), newKV(t, client)
		ctx, cancel := context.WithCancel(t.Context())
		clienttest.Must(owner.Get(ctx, "k"))
		cancel()

		// New watch streams are refused until there is a gap.
		refuse := cluster.On("Watch", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCNoLeader) })
		cluster.Member(0).BreakConnections()
		clienttest.Must(client.Get(t.Context(), "any")) // a write on the broken connection would be lost with it
		written := put(other, "k", "v")
		synctest.Wait()
		require.Equal(t, "REVOKE", string(cluster.Get(prefix+"k").Value))
		for i := range 3 {
			clienttest.Put(t, cluster, fmt.Sprint("filler", i), "v")
		}
		require.NoError(t, cluster.Compact(cluster.Revision()))
		refuse.Remove()

		require.NoError(t, <-written)
		requireTruth(t, cluster, owner, "k")
		require.Less(t, cluster.Count("Range"), 100, "the server was asked over and over")
	})
}
