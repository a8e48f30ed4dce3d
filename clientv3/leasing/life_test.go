package leasing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/leasing"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// Waiting for an owner that does not answer ends with the caller's context, without a write.
func TestWaitForOwnerEndsWithContext(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		clienttest.Must(client.Put(t.Context(), prefix+"k", "")) // a dead owner
		kv := newKV(t, client)
		for name, write := range map[string]func(ctx context.Context) error{
			"put":    func(ctx context.Context) error { _, err := kv.Put(ctx, "k", "v"); return err },
			"delete": func(ctx context.Context) error { _, err := kv.Delete(ctx, "k", clientv3.WithPrefix()); return err },
			"txn": func(ctx context.Context) error {
				_, err := kv.Txn(ctx).Then(clientv3.OpPut("k", "v")).Commit()
				return err
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			watches := cluster.Count("Watch")
			before := cluster.PutCount(prefix + "k")
			done := clienttest.Go(func() error { return write(ctx) })
			require.Greater(t, cluster.PutCount(prefix+"k"), before, "%s revokes it", name)
			cancel()
			require.Equal(t, context.Canceled, <-done, name)
			require.LessOrEqual(t, cluster.Count("Watch"), watches+2)
		}
		require.Nil(t, cluster.Get("k"))
	})
}

// A write finds more leasing keys than fit into one transaction, its own and others'.
func TestManyOwners(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		mine, theirs := newKV(t, client), newKV(t, clienttest.Connect(t, cluster))
		const n = 300
		for i := range n {
			key := fmt.Sprintf("k/%03d", i)
			clienttest.Put(t, cluster, key, "v")
			own(t, cluster, []clientv3.KV{mine, theirs}[i%2], key)
		}
		resp := clienttest.Must(mine.Delete(clienttest.Within(t), "k/", clientv3.WithPrefix()))
		require.Equal(t, int64(n), resp.Deleted)
		for i := range n {
			requireTruth(t, cluster, mine, fmt.Sprintf("k/%03d", i))
			requireTruth(t, cluster, theirs, fmt.Sprintf("k/%03d", i))
		}
	})
}

// While the leasing keys cannot be watched or listed, everything works without a cache.
func TestLeasingKeysCannotBeFollowed(t *testing.T) {
	for method, key := range map[string]string{"Watch": "", "Range": prefix} {
		clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
			cluster.On(method, func(c *fakeetcd.Call) {
				if r, ok := c.Request.(*pb.RangeRequest); !ok || string(r.Key) == key {
					c.Answer(nil, status.Error(codes.PermissionDenied, "etcdserver: permission denied"))
				}
			})
			kv := newKV(t, client)
			require.NoError(t, <-put(kv, "k", "v"))
			for range 2 {
				requireFromServer(t, cluster, kv, "k")
			}
		})
	}
}

// Each time that the leasing keys could be watched, and cannot be any more, is logged.
func TestEndsOfTheWatchAreLogged(t *testing.T) {
	clienttest.Bubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster) {
		core, logs := observer.New(zap.WarnLevel)
		kv := newKV(t, clienttest.Connect(t, cluster, clientv3.Config{Logger: zap.New(core)}))
		for i := range 3 {
			own(t, cluster, kv, fmt.Sprint(i))
			synctest.Wait()
			refuse := clienttest.RefuseWatches(cluster, rpctypes.ErrPermissionDenied)
			cluster.Member(0).BreakConnections()
			time.Sleep(time.Minute)
			refuse.Remove()
			time.Sleep(time.Minute)
		}
		require.Equal(t, 3, logs.FilterMessageSnippet("leasing keys cannot be watched").Len())
	})
}

func TestNewKVErrors(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		kv, closeKV, err := leasing.NewKV(client, "")
		require.ErrorContains(t, err, "prefix")
		require.Nil(t, kv)
		closeKV()

		cluster.Once("LeaseGrant", func(c *fakeetcd.Call) {
			c.Answer(nil, status.Error(codes.PermissionDenied, "etcdserver: permission denied"))
		})
		_, closeKV, err = leasing.NewKV(client, prefix)
		require.ErrorContains(t, err, "permission denied")
		closeKV()

		ended := clienttest.Ended(t)
		_, closeKV, err = leasing.NewKV(client, prefix, concurrency.WithContext(ended))
		require.ErrorIs(t, err, context.Canceled)
		closeKV()

		require.NoError(t, client.Close())
		_, closeKV, err = leasing.NewKV(client, prefix)
		require.ErrorIs(t, err, context.Canceled)
		closeKV()
	})
}

// Close is bounded when no member answers.
func TestCloseWithoutServer(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		kv, closeKV, err := leasing.NewKV(client, prefix)
		require.NoError(t, err)
		own(t, cluster, kv, "k")
		cluster.Member(0).Stop()
		start := time.Now()
		closeKV()
		closeKV()
		require.Equal(t, time.Second, time.Since(start))
		_, err = kv.Put(t.Context(), "k", "v")
		require.Equal(t, context.Canceled, err)
		cluster.Member(0).Start()
		requireTruth(t, cluster, kv, "k")
	})
}

// withLeaseOfUser returns a KV with a lease that its user has granted.
func withLeaseOfUser(t *testing.T, client *clientv3.Client, opts ...concurrency.SessionOption) (kv clientv3.KV, lease clientv3.LeaseID, closeKV func()) {
	t.Helper()
	lease = clienttest.Must(client.Grant(t.Context(), 60)).ID
	kv, closeKV, err := leasing.NewKV(client, prefix, append(opts, concurrency.WithLease(lease))...)
	require.NoError(t, err)
	return kv, lease, closeKV
}

// A lease from the user is kept, and its leasing keys are deleted.
func TestCloseKeepsLeaseOfUser(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		kv, lease, closeKV := withLeaseOfUser(t, client)
		own(t, cluster, kv, "k")
		closeKV()
		require.Nil(t, cluster.Get(prefix+"k"))
		clienttest.Must(client.Put(t.Context(), "mine", "v", clientv3.WithLease(lease)))
	})
}

// The given lease does not exist: nothing is owned, and everything works.
func TestSessionWithoutLease(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		kv := newKV(t, client, concurrency.WithLease(4711))
		require.NoError(t, <-put(kv, "k", "v"))
		for range 2 {
			requireTruth(t, cluster, kv, "k")
		}
		require.Nil(t, cluster.Get(prefix+"k"))
	})
}

// Leases that are gone as soon as they were granted are replaced less and less often.
func TestLeasesAreGoneAtOnce(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		cluster.On("LeaseGrant", func(c *fakeetcd.Call) {
			resp, _ := c.Execute()
			_ = cluster.ExpireLease(resp.(*pb.LeaseGrantResponse).ID)
		})
		kv := newKV(t, client)
		time.Sleep(5 * time.Minute)
		require.LessOrEqual(t, cluster.Count("LeaseGrant"), 70)
		require.NoError(t, <-put(kv, "k", "v"))
	})
}

// The session ends with the context in the options.
func TestSessionEndsWithContext(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		kv := newKV(t, client, concurrency.WithContext(ctx))
		own(t, cluster, kv, "k")
		cancel()
		synctest.Wait()
		require.Nil(t, cluster.Get(prefix+"k"))
		require.NoError(t, <-put(kv, "k", "v"))
		requireTruth(t, cluster, kv, "k")
	})
}

// The client is closed while a write waits for an owner.
func TestClientClosedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := clienttest.Start(t, 1)
		clienttest.Must(cluster.Put(prefix+"k", "")) // a dead owner
		for _, phase := range []string{"asking", "waiting"} {
			client := clienttest.Connect(t, cluster)
			kv := newKV(t, client)
			cluster.Nth("Txn", 2, func(c *fakeetcd.Call) {
				if phase == "asking" {
					<-c.Context().Done()
					return
				}
				_, err := c.Execute()
				assert.NoError(t, err)
			})
			written := put(kv, "k", "v")
			require.NoError(t, client.Close())
			require.Error(t, <-written, phase)
		}
		require.Nil(t, cluster.Get("k"))
	})
}

// One failed comparison decides, even if the cache cannot evaluate another.
func TestFalseComparisonDecides(t *testing.T) {
	withKV(t, func(t *testing.T, cluster *fakeetcd.Cluster, kv clientv3.KV) {
		own(t, cluster, kv, "k")
		before := requests(cluster)
		resp, err := kv.Txn(t.Context()).If(
			clientv3.Compare(clientv3.Version("unknown"), "=", 0),
			clientv3.Compare(clientv3.Version("k"), "=", 1),
		).Then(clientv3.OpPut("k", "v")).Else(clientv3.OpGet("k")).Commit()
		require.NoError(t, err)
		require.False(t, resp.Succeeded)
		require.Len(t, resp.Responses, 1)
		require.Equal(t, before, requests(cluster))
	})
}

// A get does not try to acquire a key of another owner each time: an attempt costs the cluster as much as a write.
func TestForeignKeyIsBackedOff(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		owner, other := newKV(t, client), newKV(t, clienttest.Connect(t, cluster))
		own(t, cluster, owner, "k")
		requireTruth(t, cluster, other, "k")
		attempts := cluster.Count("Txn")
		for range 3 {
			requireTruth(t, cluster, other, "k")
		}
		require.Equal(t, attempts, cluster.Count("Txn"))
	})
}

func TestEndedContext(t *testing.T) {
	withKV(t, func(t *testing.T, cluster *fakeetcd.Cluster, kv clientv3.KV) {
		own(t, cluster, kv, "k")
		ctx := clienttest.Ended(t)
		_, err := kv.Get(ctx, "k")
		require.Equal(t, context.Canceled, err)
		_, err = kv.Txn(ctx).Then(clientv3.OpGet("k")).Commit()
		require.Equal(t, context.Canceled, err)
		_, err = kv.Put(ctx, "k", "v")
		require.ErrorIs(t, err, context.Canceled)
		require.Nil(t, cluster.Get("k"))
	})
}

func TestUncacheableReads(t *testing.T) {
	withKV(t, func(t *testing.T, cluster *fakeetcd.Cluster, kv clientv3.KV) {
		own(t, cluster, kv, "k")
		_, err := kv.GetStream(t.Context(), "k")
		require.Equal(t, codes.Unimplemented, status.Code(err))
		_, err = kv.Do(t.Context(), clientv3.Op{})
		require.ErrorContains(t, err, "OpGet")
		clienttest.Must(kv.Compact(t.Context(), cluster.Revision()))
		for range 2 {
			for _, op := range []clientv3.Op{
				clientv3.OpGet(prefix + "absent"),
				clientv3.OpGet(""),
				clientv3.OpGet("k", clientv3.WithRev(cluster.Revision())),
				clientv3.OpGet("k", clientv3.WithPrefix()),
				clientv3.OpGet("k", clientv3.WithLimit(-1)),
				clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpGet("k"), clientv3.OpTxn(nil, nil, nil)}, nil),
				clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Version("k").WithPrefix(), "=", 0)}, nil, nil),
			} {
				before := requests(cluster)
				_, err := kv.Do(t.Context(), op)
				require.Equal(t, op.IsGet() && len(op.KeyBytes()) == 0, err != nil)
				require.Greater(t, requests(cluster), before)
			}
		}
		require.Nil(t, cluster.Get(prefix+prefix+"absent"), "a leasing key was owned")
		clienttest.Get(t, kv, "unowned", clientv3.WithSerializable())
		require.Nil(t, cluster.Get(prefix+"unowned"))
	})
}

// The program's own Lease does not report until when a lease lives, so nothing is answered from the cache.
func TestLeaseWithoutDeadline(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		client.Lease = leaseWithoutDeadline{client.Lease}
		kv := newKV(t, client)
		clienttest.Put(t, cluster, "k", "v")
		for range 2 {
			requireFromServer(t, cluster, kv, "k")
		}
	})
}

type leaseWithoutDeadline struct{ clientv3.Lease }

func (l leaseWithoutDeadline) KeepAlive(
	ctx context.Context, id clientv3.LeaseID,
) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	return l.Lease.KeepAlive(clientv3.WithLeaseMonitor(ctx, &clientv3.LeaseMonitor{}), id)
}

type brokenGrant struct {
	clientv3.Lease
	left int
}

func (l *brokenGrant) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	if l.left--; l.left >= 0 {
		return nil, errors.New("cannot grant")
	}
	return l.Lease.Grant(ctx, ttl)
}

// NewKV waits as long as waiting may help.
func TestNewKVWaits(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		client.Lease = &brokenGrant{client.Lease, 2}
		own(t, cluster, newKV(t, client), "k")
	})
}

// A lease of the user outlives the KV, so no client deletes a leasing key that the KV leaves.
func TestCloseDuringAReleaseLeavesNoLeasingKey(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		kv, _, closeKV := withLeaseOfUser(t, client)
		own(t, cluster, kv, "k")
		var lost atomic.Bool
		cluster.On("Txn", func(c *fakeetcd.Call) {
			deletes := slices.ContainsFunc(c.Request.(*pb.TxnRequest).Success, func(op *pb.RequestOp) bool {
				in := op.GetRequestTxn().GetSuccess()
				return len(in) > 0 && in[0].GetRequestDeleteRange() != nil
			})
			if deletes && !lost.Swap(true) {
				<-c.Context().Done()
				c.Answer(nil, c.Context().Err())
			}
		})
		written := put(newKV(t, clienttest.Connect(t, cluster)), "k", "v")
		synctest.Wait() // the owner is deleting the leasing key
		closeKV()
		synctest.Wait()
		assert.True(t, lost.Load())
		require.Nil(t, cluster.Get(prefix+"k"))
		require.NoError(t, <-written)
	})
}

// The session ends, with the KV or with the context in the options, before the server executes an acquisition.
func TestLateAcquisitionLeavesNoLeasingKey(t *testing.T) {
	for i, end := range []string{"close", "context"} {
		clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
			ctx, cancel := context.WithCancel(t.Context())
			kv, _, closeKV := withLeaseOfUser(t, client, concurrency.WithContext(ctx))
			release := clienttest.Hold(cluster, "Txn")
			got := clienttest.Go(func() error { _, err := kv.Get(t.Context(), "k"); return err })
			[]func(){closeKV, cancel}[i]()
			synctest.Wait()
			release()
			require.NoError(t, <-got)
			assert.Nil(t, cluster.Get(prefix+"k"), end)
			closeKV()
		})
	}
}
