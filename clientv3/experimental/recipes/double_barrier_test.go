package recipe_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	recipe "github.com/quorate/quorate/clientv3/experimental/recipes"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// newDoubleBarrier returns a participant with a session and a client of its own.
func newDoubleBarrier(t *testing.T, cluster *fakeetcd.Cluster, count int) (*recipe.DoubleBarrier, *concurrency.Session) {
	t.Helper()
	s := newSession(t, clienttest.Connect(t, cluster))
	return recipe.NewDoubleBarrier(s, "b", count), s
}

// participants returns those of a barrier for count, without their sessions.
func participants(t *testing.T, cluster *fakeetcd.Cluster, count, n int) []*recipe.DoubleBarrier {
	t.Helper()
	all := make([]*recipe.DoubleBarrier, n)
	for i := range all {
		all[i], _ = newDoubleBarrier(t, cluster, count)
	}
	return all
}

// enterAll makes participants enter one after the other; the last one opens the barrier.
func enterAll(t *testing.T, barriers ...*recipe.DoubleBarrier) {
	t.Helper()
	var entering []pending
	for _, b := range barriers {
		requireWaiting(t, entering...)
		entering = append(entering, call(b.Enter))
	}
	succeed(t, entering...)
}

func TestDoubleBarrierOfOne(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		b, _ := newDoubleBarrier(t, cluster, 1)
		require.ErrorContains(t, b.Leave(), "not entered")
		require.NoError(t, b.Enter())
		all := clienttest.Keys(t, client, "b")
		require.Len(t, all, 2)
		require.Regexp(t, `^b/waiters/[0-9]+$`, all[0])
		require.Equal(t, "b/ready", all[1])
		require.ErrorContains(t, b.Enter(), "leave it first")
		require.NoError(t, b.Leave())
		require.ErrorContains(t, b.Leave(), "not entered")
		require.Empty(t, clienttest.Keys(t, client, "b"))

		require.NoError(t, b.Enter())
		remove(t, client, "b/waiters/", clientv3.WithPrefix())
		requireSessionLost(t, b.Leave())
		require.NoError(t, b.Enter(), "a participant that was wrongly taken for dead can start again")
		require.NoError(t, b.Leave())

		nobody, _ := newDoubleBarrier(t, cluster, 0)
		require.Equal(t, recipe.ErrTooManyClients, nobody.Enter())
	})
}

func TestDoubleBarrierTooManyClients(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		b := participants(t, cluster, 2, 3)
		late := b[2]
		// The late one has seen room, and its key comes after two others.
		release := clienttest.Hold(cluster, "Txn")
		entering := call(late.Enter)
		enterAll(t, b[:2]...)
		release()
		require.Equal(t, recipe.ErrTooManyClients, entering.result(t))
		require.Equal(t, recipe.ErrTooManyClients, late.Enter())
		require.Len(t, clienttest.Keys(t, client, "b/waiters/"), 2)
	})
}

// One who waits to enter is lost, and another comes in its place.
func TestDoubleBarrierIsLostBeforeItOpens(t *testing.T) {
	for loss, lose := range map[string]func(t *testing.T, cluster *fakeetcd.Cluster, s *concurrency.Session){
		"lease expires":  expire,
		"session closed": func(t *testing.T, _ *fakeetcd.Cluster, s *concurrency.Session) { require.NoError(t, s.Close()) },
		"key deleted": func(t *testing.T, _ *fakeetcd.Cluster, s *concurrency.Session) {
			remove(t, s.Client(), "b/waiters/", clientv3.WithPrefix())
		},
	} {
		t.Run(loss, func(t *testing.T) {
			clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
				b1, s1 := newDoubleBarrier(t, cluster, 2)
				in1 := call(b1.Enter)
				requireWaiting(t, in1)
				lose(t, cluster, s1)
				requireSessionLost(t, in1.result(t))

				others := participants(t, cluster, 2, 2)
				enterAll(t, others...)
				out := call(others[0].Leave)
				require.NoError(t, others[1].Leave())
				succeed(t, out)
				require.Empty(t, clienttest.Keys(t, client, "b"))
			})
		})
	}
}

// The last one is lost after it has counted and before it lets the others in.
func TestDoubleBarrierLastOneIsLost(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, _ *clientv3.Client) {
		b1, _ := newDoubleBarrier(t, cluster, 2)
		b2, s2 := newDoubleBarrier(t, cluster, 2)
		in1 := call(b1.Enter)

		expireIt := func(*fakeetcd.Call) { assert.NoError(t, cluster.ExpireLease(int64(s2.Lease()))) }
		cluster.Nth("Txn", 2, expireIt)
		requireSessionLost(t, b2.Enter())
		requireWaiting(t, in1)
		require.Nil(t, cluster.Get("b/ready"))

		b3, _ := newDoubleBarrier(t, cluster, 2)
		require.NoError(t, b3.Enter())
		succeed(t, in1)
	})
}

func TestDoubleBarrierWatchBreaks(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		b, _ := newDoubleBarrier(t, cluster, 2)
		clienttest.RefuseWatches(cluster, rpctypes.ErrGRPCPermissionDenied)
		require.Equal(t, rpctypes.ErrPermissionDenied, call(b.Enter).result(t))
		require.Empty(t, clienttest.Keys(t, client, "b"), "nothing is left that would be counted")
	})
}

// The store is compacted between the put of the key and the watch. The barrier is opened
// meanwhile, or later.
func TestDoubleBarrierEnterCompaction(t *testing.T) {
	for name, opened := range map[string]bool{"opened meanwhile": true, "opened later": false} {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, _ *clientv3.Client) {
				clienttest.Put(t, cluster, "b/ready", "") // left over from those who died
				b := participants(t, cluster, 2, 2)
				release := clienttest.Hold(cluster, "Watch")
				in := call(b[0].Enter)
				if opened {
					require.NoError(t, b[1].Enter())
				}
				compact(t, cluster)
				requireWaiting(t, in)
				release()
				if !opened {
					requireWaiting(t, in)
					require.NoError(t, b[1].Enter())
				}
				succeed(t, in)
			})
		})
	}
}

// Those who die after the barrier has opened are not waited for once their leases have
// ended.
func TestDoubleBarrierFailover(t *testing.T) {
	for name, dead := range map[string]int{"oldest": 0, "middle": 1, "youngest": 2} {
		t.Run(name, func(t *testing.T) {
			clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
				barriers := make([]*recipe.DoubleBarrier, 3)
				sessions := make([]*concurrency.Session, 3)
				for i := range barriers {
					barriers[i], sessions[i] = newDoubleBarrier(t, cluster, 3)
				}
				enterAll(t, barriers...)
				var out []pending
				for i, b := range barriers {
					if i != dead {
						out = append(out, call(b.Leave))
					}
				}
				requireWaiting(t, out...)
				expire(t, cluster, sessions[dead])
				succeed(t, out...)
				require.Empty(t, clienttest.Keys(t, client, "b/waiters/"))
				requireSessionLost(t, barriers[dead].Leave())
			})
		})
	}
}

// Leave does not wait for participants that enter the next use.
func TestDoubleBarrierReuse(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		b := participants(t, cluster, 3, 4)
		enterAll(t, b[:3]...)
		out := []pending{call(b[1].Leave), call(b[2].Leave)}
		in := call(b[3].Enter)
		succeed(t, append(out, call(b[0].Leave))...)
		requireWaiting(t, in)
		require.Len(t, clienttest.Keys(t, client, "b"), 1)
	})
}

// The barrier opens for others. A participant whose key was deleted sees that before it sees the delete.
func TestDoubleBarrierOpensWithoutALostParticipant(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		b := participants(t, cluster, 2, 3)
		cluster.Once("Watch", func(c *fakeetcd.Call) {
			c.OnSend(func(resp proto.Message) bool {
				return !slices.ContainsFunc(resp.(*pb.WatchResponse).Events, func(ev *clientv3.Event) bool {
					return ev.Type == clientv3.EventTypeDelete
				})
			})
		})
		in := call(b[0].Enter)
		remove(t, client, "b/waiters/", clientv3.WithPrefix())
		requireWaiting(t, in)
		enterAll(t, b[1:]...)
		requireSessionLost(t, in.result(t))
	})
}

// The barrier has opened again before the last participant of the previous round has
// left.
func TestDoubleBarrierLeaveKeepsTheNextUseOpen(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, _ *clientv3.Client) {
		b1, _ := newDoubleBarrier(t, cluster, 2)
		b2, s2 := newDoubleBarrier(t, cluster, 2)
		b3, _ := newDoubleBarrier(t, cluster, 2)
		enterAll(t, b1, b2)
		require.NoError(t, s2.Close())
		require.NoError(t, b3.Enter())
		require.NoError(t, b1.Leave())
		require.NotNil(t, cluster.Get("b/ready"))
		require.NoError(t, b3.Leave())
		require.Nil(t, cluster.Get("b/ready"))
	})
}
