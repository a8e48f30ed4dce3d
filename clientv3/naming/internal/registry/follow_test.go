package registry

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A list of a member that has not reached the revision of an event is confirmed by a linearizable read, and no other.
func TestListIsNotOlderThanEvents(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	f := NewFollower(client, "svc", 0)
	f.apply([]*clientv3.Event{{Kv: &mvccpb.KeyValue{Key: []byte("svc/a"), Value: []byte(`{"Addr":"a"}`), ModRevision: 7}}})
	for range 2 {
		clienttest.Must(f.List(t.Context()))
	}
	var serializable []bool
	for _, call := range cluster.Calls("Range") {
		if req := call.Request().(*pb.RangeRequest); string(req.Key) == "svc/" {
			serializable = append(serializable, req.Serializable)
		}
	}
	require.Equal(t, []bool{true, false, true}, serializable)
}

// taken is an Observer that waits until each list is taken.
type taken chan []Change

func (o taken) Changed(changes []Change) { o <- changes }
func (taken) Lost(error)                 {}
func (taken) Regained()                  {}

// The cluster is restored before the first list is taken, which another call notices.
func TestRestoreBeforeAListIsTaken(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		clienttest.Put(t, cluster, "svc/a", `{"Addr":"a"}`)
		lists := make(taken)
		go func() { _ = NewFollower(client, "svc", 0).Follow(t.Context(), lists) }()
		synctest.Wait()
		cluster.Once("Range", func(c *fakeetcd.Call) {
			c.Answer(&pb.RangeResponse{Header: &pb.ResponseHeader{ClusterId: fakeetcd.ClusterID, Revision: 1}}, nil)
		})
		clienttest.Must(client.Get(t.Context(), "any", clientv3.WithPrefix()))
		require.Len(t, clienttest.Next(t, lists), 1)
		require.Empty(t, clienttest.Next(t, lists), "it is listed again")
	})
}

func TestIsSilence(t *testing.T) {
	for err, want := range map[error]bool{
		context.DeadlineExceeded:     true,
		rpctypes.ErrNoLeader:         true,
		rpctypes.ErrPermissionDenied: false,
		errWatchClosed:               false,
	} {
		assert.Equal(t, want, isSilence(fmt.Errorf("listing: %w", err)), "%v", err)
	}
}
