package mirror_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mirror"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestSyncUpdatesBeforeSyncBase(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	const message = "unexpected revision = 0. Calling SyncUpdates before SyncBase finishes?"
	s := mirror.NewSyncer(c, "", 0)
	require.PanicsWithValue(t, message, func() { s.SyncUpdates(t.Context()) })
	require.PanicsWithValue(t, message, func() { mirror.NewSyncer(c, "", -1).SyncUpdates(t.Context()) })

	cluster.Once("Range", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
	_, errs := s.SyncBase(t.Context())
	require.Equal(t, rpctypes.ErrPermissionDenied, <-errs)
	require.PanicsWithValue(t, message, func() { s.SyncUpdates(t.Context()) }, "there is no base")
}

// TestSyncUpdatesFollowTheBase writes while the base is read: every change is in the
// base or in the updates, and none is in both.
func TestSyncUpdatesFollowTheBase(t *testing.T) {
	during := []string{"k10000", "k10001", "k10002", "k10003", "k10004"}
	for prefix, after := range map[string][]string{"": {"k20000", "z0000", "k30000"}, "k": {"k20000", "k30000"}} {
		cluster, c := clienttest.StartClient(t, 1)
		putKeys(t, cluster, "k", 300)
		cluster.Nth("Range", 2, func(*fakeetcd.Call) { putKeys(t, cluster, "k1", 5) })
		s := mirror.NewSyncer(c, prefix, 0)
		pages, errs := s.SyncBase(t.Context())
		updates := s.SyncUpdates(t.Context()) // the revision is known by now
		keys, err := collect(pages, errs)
		require.NoError(t, err)
		require.Len(t, keys, 300)
		for _, key := range []string{"k2", "z", "k3"} {
			putKeys(t, cluster, key, 1)
		}
		want, got := slices.Concat(during, after), []string(nil)
		for len(got) < len(want) {
			for _, event := range (<-updates).Events {
				got = append(got, string(event.Kv.Key))
			}
		}
		require.Equal(t, want, got)
	}
}

func TestSyncUpdatesFromARevision(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	putKeys(t, cluster, "k", 10)
	ctx, cancel := context.WithCancel(t.Context())
	updates := mirror.NewSyncer(c, "", 10).SyncUpdates(ctx)
	resp := <-updates
	require.Equal(t, "k0009", string(resp.Events[0].Kv.Key))
	cancel()
	for range updates {
	}

	require.NoError(t, cluster.Compact(11))
	resp = <-mirror.NewSyncer(c, "", 5).SyncUpdates(t.Context())
	require.Equal(t, rpctypes.ErrCompacted, resp.Err())
}

// The cluster is restored after the base was read, and another call of the client notices it or not.
func TestUpdatesOfARestoredCluster(t *testing.T) {
	for _, noticed := range []bool{false, true} {
		clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *clientv3.Client) {
			putKeys(t, cluster, "k", 10)
			s := mirror.NewSyncer(c, "k", 0)
			_, err := collect(s.SyncBase(t.Context()))
			require.NoError(t, err)
			restored := func(h *pb.ResponseHeader) { h.ClusterId, h.Revision = 77, 5 }
			cluster.On("Range", func(call *fakeetcd.Call) {
				resp, err := call.Execute()
				if err != nil {
					return
				}
				r := proto.CloneOf(resp.(*pb.RangeResponse))
				restored(r.Header)
				call.Answer(r, nil)
			})
			cluster.On("Watch", func(call *fakeetcd.Call) {
				call.OnSend(func(m proto.Message) bool { restored(m.(*pb.WatchResponse).Header); return true })
				_, _ = call.Execute()
			})
			if noticed {
				clienttest.Must(c.Get(t.Context(), "other"))
			}
			updates := s.SyncUpdates(t.Context())
			synctest.Wait()
			var changed *clientv3.ClusterChangedError
			var end clientv3.WatchResponse
			select {
			case end = <-updates:
			default:
			}
			require.ErrorAs(t, end.Err(), &changed)
		})
	}
}
