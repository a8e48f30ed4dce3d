package leasing_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/leasing"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// This test and the next three fail with the official package.

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

// holdAnswer executes the next Txn, and withholds its answer until release is called.
func holdAnswer(t *testing.T, cluster *fakeetcd.Cluster) (release func()) {
	held := make(chan struct{})
	cluster.Once("Txn", func(c *fakeetcd.Call) {
		_, err := c.Execute()
		assert.NoError(t, err)
		assert.NoError(t, c.Hold(held))
	})
	return func() { close(held) }
}

func put(kv clientv3.KV, key, value string) <-chan error {
	return clienttest.Go(func() error {
		_, err := kv.Put(context.Background(), key, value)
		return err
	})
}

// The owner's write is executed and visible to everyone, and the owner has no answer yet.
func TestWriteInFlightIsNotHidden(t *testing.T) {
	withKV(t, func(t *testing.T, cluster *fakeetcd.Cluster, owner clientv3.KV) {
		own(t, cluster, owner, "k")
		release := holdAnswer(t, cluster)
		written := put(owner, "k", "new")
		requireTruth(t, cluster, owner, "k")
		resp := clienttest.Must(owner.Txn(t.Context()).If(clientv3.Compare(clientv3.Version("k"), "=", 1)).Commit())
		require.True(t, resp.Succeeded)

		release()
		require.NoError(t, <-written)
		requireFromMemory(t, cluster, owner, "k")
		requireTruth(t, cluster, owner, "k")
	})
}

// The connection of a write breaks. The server executes the write, or tries to, long after the key is owned again.
func TestLateWriteIsFencedOff(t *testing.T) {
	withKV(t, func(t *testing.T, cluster *fakeetcd.Cluster, owner clientv3.KV) {
		own(t, cluster, owner, "k")
		release, late := make(chan struct{}), make(chan proto.Message, 1)
		cluster.Once("Txn", func(c *fakeetcd.Call) {
			c.BreakConn()
			<-release
			resp, err := c.Execute()
			assert.NoError(t, err)
			late <- resp
		})
		_, err := owner.Put(t.Context(), "k", "late")
		require.ErrorAs(t, err, new(*retry.UnknownOutcomeError))
		requireTruth(t, cluster, owner, "k")
		awaitOwned(t, cluster, owner, "k")

		close(release)
		require.False(t, (<-late).(*pb.TxnResponse).Succeeded)
		requireFromMemory(t, cluster, owner, "k")
		requireTruth(t, cluster, owner, "k")
	})
}

// An operator deletes the leasing key, and the watch event is lost. The owner's next write detects it.
func TestLeasingKeyDeletedByHand(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		cluster.On("Watch", func(c *fakeetcd.Call) {
			c.OnSend(func(resp proto.Message) bool { return len(resp.(*pb.WatchResponse).Events) == 0 })
		})
		owner := newKV(t, client)
		for i, write := range []func(key string) error{
			func(key string) error { _, err := owner.Put(clienttest.Within(t), key, "v"); return err },
			func(key string) error { _, err := owner.Delete(clienttest.Within(t), key); return err },
			func(key string) error {
				_, err := owner.Delete(clienttest.Within(t), key, clientv3.WithPrefix())
				return err
			},
		} {
			key := fmt.Sprint("k", i)
			own(t, cluster, owner, key)
			clienttest.Must(client.Delete(t.Context(), prefix+key))
			require.NoError(t, write(key))
			requireFromServer(t, cluster, owner, key)
		}
	})
}

// An operator deletes the leasing key, and the watch event arrives.
func TestManualDeletionIsDetected(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		owner := newKV(t, client)
		own(t, cluster, owner, "k")
		clienttest.Must(client.Delete(t.Context(), prefix+"k"))
		synctest.Wait()
		requireFromServer(t, cluster, owner, "k")
	})
}

// The watch breaks with a gap. Until the leasing keys are listed, nothing is answered from the cache; then the keys
// still owned are.
func TestGap(t *testing.T) {
	withKV(t, func(t *testing.T, cluster *fakeetcd.Cluster, owner clientv3.KV) {
		own(t, cluster, owner, "kept")
		own(t, cluster, owner, "lost")
		release := make(chan struct{})
		listing := cluster.On("Range", func(c *fakeetcd.Call) {
			if string(c.Request.(*pb.RangeRequest).Key) == prefix {
				assert.NoError(t, c.Hold(release))
			}
		})
		refuse := cluster.On("Watch", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCNoLeader) })
		cluster.Member(0).BreakConnections()
		clienttest.Must(clienttest.Connect(t, cluster).Delete(t.Context(), prefix+"lost"))
		for range 2 {
			clienttest.Put(t, cluster, "filler", "v")
		}
		require.NoError(t, cluster.Compact(cluster.Revision()))
		refuse.Remove()
		time.Sleep(10 * time.Second)
		require.Positive(t, listing.Ran(), "the leasing keys are listed")
		listing.Remove()
		for _, key := range []string{"kept", "lost"} {
			requireFromServer(t, cluster, owner, key)
		}
		close(release)
		awaitOwned(t, cluster, owner, "kept")
		requireFromServer(t, cluster, owner, "lost")
	})
}

// The revocation and the deletion of the leasing key are repeated when their answers are lost; the write is not.
func TestRevocationIsRepeated(t *testing.T) {
	withKV(t, func(t *testing.T, cluster *fakeetcd.Cluster, owner clientv3.KV) {
		other := newKV(t, clienttest.Connect(t, cluster))
		own(t, cluster, owner, "k")
		broken := cluster.On("Txn", func(c *fakeetcd.Call) {
			req := c.Request.(*pb.TxnRequest)
			if len(req.Compare) > 0 || c.Number%2 == 0 {
				return
			}
			c.BreakConn()
		})
		require.NoError(t, <-put(other, "k", "v"))
		require.Greater(t, broken.Ran(), 3)
		require.Equal(t, 1, cluster.PutCount("k"))
		requireTruth(t, cluster, owner, "k")
	})
}

// etcd serves a watch from its next revision on at once, one from an earlier revision within 100 ms.
func TestDeletionIsAwaitedFromTheRevocationOn(t *testing.T) {
	withKV(t, func(t *testing.T, cluster *fakeetcd.Cluster, owner clientv3.KV) {
		own(t, cluster, owner, "k")
		revocation := cluster.Revision() + 1
		require.NoError(t, <-put(newKV(t, clienttest.Connect(t, cluster)), "k", "v"))
		var starts []int64
		for _, call := range cluster.Calls("Watch") {
			for _, r := range call.Requests {
				if create := r.(*pb.WatchRequest).GetCreateRequest(); string(create.GetKey()) == prefix+"k" {
					starts = append(starts, create.StartRevision)
				}
			}
		}
		require.Equal(t, []int64{revocation + 1}, starts)
	})
}

// The writer's own leasing key is deleted before another one is revoked.
func TestDeletionOfAnOwnLeasingKeyIsAwaited(t *testing.T) {
	withKV(t, func(t *testing.T, cluster *fakeetcd.Cluster, owner clientv3.KV) {
		own(t, cluster, owner, "a")
		own(t, cluster, newKV(t, clienttest.Connect(t, cluster)), "b")
		cluster.On("Txn", func(c *fakeetcd.Call) {
			for strings.Contains(fmt.Sprint(c.Request), "REVOKE") && cluster.Get(prefix+"a") != nil {
				time.Sleep(time.Millisecond)
			}
		})
		clienttest.Must(owner.Delete(clienttest.Within(t), "", clientv3.WithPrefix()))
	})
}

// A leasing key left by an acquisition without an answer is removed, so that the key can be owned.
func TestOrphanIsRemoved(t *testing.T) {
	withKV(t, func(t *testing.T, cluster *fakeetcd.Cluster, owner clientv3.KV) {
		cluster.Once("Txn", clienttest.LoseAnswer)
		requireTruth(t, cluster, owner, "k")
		orphan := cluster.Get(prefix + "k").CreateRevision
		awaitOwned(t, cluster, owner, "k")
		require.Greater(t, cluster.Get(prefix+"k").CreateRevision, orphan)
	})
}
