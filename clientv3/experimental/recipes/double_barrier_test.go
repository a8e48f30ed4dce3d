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

// enterAll has participants enter one after the other; the last one opens the barrier.
func enterAll(t *testing.T, cluster *fakeetcd.Cluster, barriers ...*recipe.DoubleBarrier) {
	t.Helper()
	var entering []pending
	for i, b := range barriers {
		if i < len(barriers)-1 {
			entering = append(entering, waiting(t, cluster, b.Enter))
			continue
		}
		require.NoError(t, call(b.Enter).result(t))
	}
	for _, p := range entering {
		require.NoError(t, p.result(t))
	}
}

func TestDoubleBarrier(t *testing.T) {
	cluster, client := start(t)
	b1, _ := newDoubleBarrier(t, cluster, 3)
	b2, _ := newDoubleBarrier(t, cluster, 3)
	b3, _ := newDoubleBarrier(t, cluster, 3)
	for range 2 { // it can be used again
		in1, in2 := waiting(t, cluster, b1.Enter), waiting(t, cluster, b2.Enter)
		in1.still(t)
		require.NoError(t, call(b3.Enter).result(t))
		require.NoError(t, in1.result(t))
		require.NoError(t, in2.result(t))
		all := keys(t, client, "b")
		slices.Sort(all)
		require.Len(t, all, 4)
		require.Equal(t, "b/ready", all[0])
		require.Regexp(t, `^b/waiters/[0-9]{19}$`, all[1])

		out1 := watching(t, cluster, 1, b1.Leave)
		out3 := watching(t, cluster, 1, b3.Leave)
		out1.still(t)
		out3.still(t)
		require.NoError(t, call(b2.Leave).result(t))
		require.NoError(t, out1.result(t))
		require.NoError(t, out3.result(t))
		require.Empty(t, keys(t, client, "b"))
	}
}

func TestDoubleBarrierOfOne(t *testing.T) {
	cluster, client := start(t)
	b, _ := newDoubleBarrier(t, cluster, 1)
	require.NoError(t, b.Enter())
	require.NoError(t, b.Leave())
	require.Empty(t, keys(t, client, "b"))

	nobody, _ := newDoubleBarrier(t, cluster, 0)
	require.Equal(t, recipe.ErrTooManyClients, nobody.Enter())
}

func TestDoubleBarrierMisuse(t *testing.T) {
	cluster, _ := start(t)
	b, _ := newDoubleBarrier(t, cluster, 1)
	require.ErrorContains(t, b.Leave(), "not entered")
	require.NoError(t, b.Enter())
	require.ErrorContains(t, b.Enter(), "leave it first")
	require.NoError(t, b.Leave())
	require.ErrorContains(t, b.Leave(), "not entered")
}

func TestDoubleBarrierTooManyClients(t *testing.T) {
	cluster, client := start(t)
	b1, _ := newDoubleBarrier(t, cluster, 2)
	b2, _ := newDoubleBarrier(t, cluster, 2)
	late, _ := newDoubleBarrier(t, cluster, 2)

	// The late one has seen room, and its key comes after two others.
	held := make(chan struct{})
	cluster.Once("Txn", func(c *fakeetcd.Call) { _ = c.Hold(held) })
	entering := call(late.Enter)
	entering.until(t, cluster, "Txn", 1)
	enterAll(t, cluster, b1, b2)
	close(held)
	require.Equal(t, recipe.ErrTooManyClients, entering.result(t))
	require.Equal(t, recipe.ErrTooManyClients, late.Enter())
	require.Len(t, keys(t, client, "b/waiters/"), 2)
}

// One who waits to enter is lost, and another comes in its place.
func TestDoubleBarrierIsLostBeforeItOpens(t *testing.T) {
	cluster, client := start(t)
	for loss, lose := range map[string]func(t *testing.T, s *concurrency.Session){
		"lease expires":  func(t *testing.T, s *concurrency.Session) { expire(t, cluster, s) },
		"session closed": func(t *testing.T, s *concurrency.Session) { require.NoError(t, s.Close()) },
		"key deleted": func(t *testing.T, _ *concurrency.Session) {
			remove(t, client, "b/waiters/", clientv3.WithPrefix())
		},
	} {
		t.Run(loss, func(t *testing.T) {
			b1, s1 := newDoubleBarrier(t, cluster, 2)
			in1 := waiting(t, cluster, b1.Enter)
			lose(t, s1)
			requireSessionLost(t, in1.result(t))

			b2, _ := newDoubleBarrier(t, cluster, 2)
			b3, _ := newDoubleBarrier(t, cluster, 2)
			enterAll(t, cluster, b2, b3)
			out2 := watching(t, cluster, 1, b2.Leave)
			require.NoError(t, b3.Leave())
			require.NoError(t, out2.result(t))
			require.Empty(t, keys(t, client, "b"))
		})
	}
}

// The last one is lost after it has counted and before it lets the others in.
func TestDoubleBarrierLastOneIsLost(t *testing.T) {
	cluster, _ := start(t)
	b1, _ := newDoubleBarrier(t, cluster, 2)
	b2, s2 := newDoubleBarrier(t, cluster, 2)
	in1 := waiting(t, cluster, b1.Enter)

	expireIt := func(*fakeetcd.Call) { assert.NoError(t, cluster.ExpireLease(int64(s2.Lease()))) }
	cluster.Nth("Txn", 2, expireIt)
	cluster.Once("Put", expireIt)
	requireSessionLost(t, b2.Enter())
	in1.still(t)
	require.Nil(t, cluster.Get("b/ready"))

	b3, _ := newDoubleBarrier(t, cluster, 2)
	require.NoError(t, b3.Enter())
	require.NoError(t, in1.result(t))
}

// One who is taken for dead, and is not, can begin anew.
func TestDoubleBarrierAfterItsKeyWasDeleted(t *testing.T) {
	cluster, client := start(t)
	b, _ := newDoubleBarrier(t, cluster, 1)
	require.NoError(t, b.Enter())
	remove(t, client, "b/waiters/", clientv3.WithPrefix())
	requireSessionLost(t, b.Leave())
	require.NoError(t, b.Enter())
	require.NoError(t, b.Leave())
}

func TestDoubleBarrierWatchBreaks(t *testing.T) {
	cluster, client := start(t)
	b, _ := newDoubleBarrier(t, cluster, 2)
	refuseWatches(cluster)
	require.Equal(t, rpctypes.ErrPermissionDenied, call(b.Enter).result(t))
	require.Empty(t, keys(t, client, "b"), "nothing is left that would be counted")
}

func TestDoubleBarrierLeaveClientClosed(t *testing.T) {
	cluster, client := start(t)
	b1 := recipe.NewDoubleBarrier(newSession(t, client), "b", 2)
	b2, _ := newDoubleBarrier(t, cluster, 2)
	enterAll(t, cluster, b1, b2)
	out := watching(t, cluster, 1, b1.Leave)
	require.NoError(t, client.Close())
	requireClientClosed(t, out.result(t))
}

// The history goes between the key and the watch: either the barrier stays shut, or it is
// opened meanwhile.
func TestDoubleBarrierEnterCompaction(t *testing.T) {
	for name, opened := range map[string]bool{"opened meanwhile": true, "opened later": false} {
		t.Run(name, func(t *testing.T) {
			cluster, client := start(t)
			put(t, client, "b/ready", "") // left over from those who died
			b1, _ := newDoubleBarrier(t, cluster, 2)
			b2, _ := newDoubleBarrier(t, cluster, 2)
			release := holdWatch(t, cluster)
			in1 := held(t, cluster, b1.Enter)
			if opened {
				require.NoError(t, b2.Enter())
			}
			compact(t, cluster)
			ranges := cluster.Count("Range")
			release()
			if !opened {
				in1.until(t, cluster, "Range", ranges+2) // its own key and that which opens
				require.NoError(t, b2.Enter())
			}
			require.NoError(t, in1.result(t))
		})
	}
}

// Those who die after the barrier has opened are not waited for once their leases have
// ended.
func TestDoubleBarrierFailover(t *testing.T) {
	for name, dead := range map[string]int{"oldest": 0, "middle": 1, "youngest": 2} {
		t.Run(name, func(t *testing.T) {
			cluster, client := start(t)
			barriers := make([]*recipe.DoubleBarrier, 3)
			sessions := make([]*concurrency.Session, 3)
			for i := range barriers {
				barriers[i], sessions[i] = newDoubleBarrier(t, cluster, 3)
			}
			enterAll(t, cluster, barriers...)
			var out []pending
			for i, b := range barriers {
				if i != dead {
					out = append(out, watching(t, cluster, 1, b.Leave))
				}
			}
			expire(t, cluster, sessions[dead])
			for _, p := range out {
				require.NoError(t, p.result(t))
			}
			require.Empty(t, keys(t, client, "b/waiters/"))
			requireSessionLost(t, barriers[dead].Leave())
		})
	}
}

// Leave does not wait for participants that enter the next use.
func TestDoubleBarrierReuse(t *testing.T) {
	cluster, client := start(t)
	b1, _ := newDoubleBarrier(t, cluster, 3)
	b2, _ := newDoubleBarrier(t, cluster, 3)
	b3, _ := newDoubleBarrier(t, cluster, 3)
	next, _ := newDoubleBarrier(t, cluster, 3)
	enterAll(t, cluster, b1, b2, b3)
	out2, out3 := watching(t, cluster, 1, b2.Leave), watching(t, cluster, 1, b3.Leave)
	in := waiting(t, cluster, next.Enter)
	require.NoError(t, call(b1.Leave).result(t))
	require.NoError(t, out2.result(t))
	require.NoError(t, out3.result(t))
	in.still(t)
	require.Len(t, keys(t, client, "b"), 1)
}

// The delete of its key is reported later than that the barrier is open, for others.
func TestDoubleBarrierOpensWithoutALostParticipant(t *testing.T) {
	cluster, client := start(t)
	b1, _ := newDoubleBarrier(t, cluster, 2)
	cluster.Once("Watch", func(c *fakeetcd.Call) {
		c.OnSend(func(resp proto.Message) bool {
			return !slices.ContainsFunc(resp.(*pb.WatchResponse).Events, func(ev *clientv3.Event) bool {
				return ev.Type == clientv3.EventTypeDelete
			})
		})
	})
	in1 := waiting(t, cluster, b1.Enter)
	remove(t, client, "b/waiters/", clientv3.WithPrefix())
	b2, _ := newDoubleBarrier(t, cluster, 2)
	b3, _ := newDoubleBarrier(t, cluster, 2)
	enterAll(t, cluster, b2, b3)
	requireSessionLost(t, in1.result(t))
}

// The barrier has opened anew before the last one of the time before has left.
func TestDoubleBarrierLeaveKeepsTheNextUseOpen(t *testing.T) {
	cluster, _ := start(t)
	b1, _ := newDoubleBarrier(t, cluster, 2)
	b2, s2 := newDoubleBarrier(t, cluster, 2)
	b3, _ := newDoubleBarrier(t, cluster, 2)
	enterAll(t, cluster, b1, b2)
	require.NoError(t, s2.Close())
	require.NoError(t, b3.Enter())
	require.NoError(t, b1.Leave())
	require.NotNil(t, cluster.Get("b/ready"))
	require.NoError(t, b3.Leave())
	require.Nil(t, cluster.Get("b/ready"))
}
