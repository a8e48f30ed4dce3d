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
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/retry"
)

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
