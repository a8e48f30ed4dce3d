package registry

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A list of a member that has not reached the revision of an event is confirmed by a linearizable read.
func TestListIsNotOlderThanEvents(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	f := NewFollower(client, "svc", 0)
	f.apply([]*clientv3.Event{{Kv: &mvccpb.KeyValue{Key: []byte("svc/a"), Value: []byte(`{"Addr":"a"}`), ModRevision: 7}}})
	_, err := f.List(t.Context())
	require.NoError(t, err)
	var serializable []bool
	for _, call := range cluster.Calls("Range") {
		if req := call.Request().(*pb.RangeRequest); string(req.Key) == "svc/" {
			serializable = append(serializable, req.Serializable)
		}
	}
	require.Equal(t, []bool{true, false}, serializable)
}

func TestIsSilence(t *testing.T) {
	for err, want := range map[error]bool{
		context.DeadlineExceeded:                      true,
		status.Error(codes.Unavailable, "refused"):    true,
		status.Error(codes.DeadlineExceeded, "slow"):  true,
		rpctypes.ErrNoLeader:                          true,
		rpctypes.ErrTimeout:                           true,
		status.Error(codes.PermissionDenied, "no"):    false,
		rpctypes.ErrPermissionDenied:                  false,
		rpctypes.ErrUserEmpty:                         false,
		errWatchClosed:                                false,
		status.Error(codes.Internal, "broken server"): false,
	} {
		assert.Equal(t, want, isSilence(fmt.Errorf("listing: %w", err)), "%v", err)
	}
}
