package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/clientv3util"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
	"go.etcd.io/etcd/client/v3/namespace"
	"go.etcd.io/etcd/client/v3/ordering"
)

// counting is a wrapper as programs write them: it embeds the interface and overrides what it looks at.
type counting struct {
	clientv3.KV
	ops []clientv3.Op
}

func (c *counting) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	c.ops = append(c.ops, op)
	return c.KV.Do(ctx, op)
}

var _ clientv3.KV = (*counting)(nil)

// mine implements all of an interface: a method more in it, and this does not compile.
type mine struct{}

func (mine) TimeToLive(context.Context, clientv3.LeaseID, ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	return nil, errors.ErrUnsupported
}

func (mine) Grant(context.Context, int64) (*clientv3.LeaseGrantResponse, error) {
	return &clientv3.LeaseGrantResponse{ID: 7}, nil
}

func (mine) Revoke(context.Context, clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	return nil, errors.ErrUnsupported
}

func (mine) Leases(context.Context) (*clientv3.LeaseLeasesResponse, error) {
	return nil, errors.ErrUnsupported
}

func (mine) KeepAlive(context.Context, clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	return nil, errors.ErrUnsupported
}

func (mine) KeepAliveOnce(context.Context, clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	return nil, errors.ErrUnsupported
}
func (mine) Close() error { return nil }

func TestWrappersStackUp(t *testing.T) {
	cluster, client, ctx := start(t)
	inner := &counting{KV: client.KV}
	client.KV = namespace.NewKV(ordering.NewKV(inner, ordering.NewOrderViolationSwitchEndpointClosure(client)), "app/")
	client.Watcher = namespace.NewWatcher(client.Watcher, "app/")
	client.Lease = namespace.NewLease(mine{}, "app/")

	watch := client.Watch(ctx, "k", clientv3.WithCreatedNotify())
	require.True(t, (<-watch).Created)
	_, err := client.Put(ctx, "k", "v")
	require.NoError(t, err)
	require.Len(t, inner.ops, 1)
	require.True(t, inner.ops[0].IsPut())
	require.Equal(t, "app/k", string(inner.ops[0].KeyBytes()))
	require.Equal(t, "v", string(cluster.Get("app/k").GetValue()))
	event := (<-watch).Events[0]
	require.Equal(t, "k", string(event.Kv.Key))
	require.True(t, event.IsCreate())
	require.Equal(t, mvccpb.PUT, clientv3.EventTypePut)
	grant, err := client.Grant(ctx, 60)
	require.NoError(t, err)
	require.Equal(t, clientv3.LeaseID(7), grant.ID)
}

func TestTxnAndOps(t *testing.T) {
	_, client, ctx := start(t)
	for range 2 {
		txn, err := client.Txn(ctx).
			If(clientv3util.KeyMissing("k"), clientv3.Compare(clientv3.Version("other"), "=", 0)).
			Then(clientv3.OpPut("k", "created")).
			Else(clientv3.OpGet("", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend), clientv3.WithLimit(1))).
			Commit()
		require.NoError(t, err)
		if !txn.Succeeded {
			// The responses are the messages of the wire, and convert to the client's.
			get := (*clientv3.GetResponse)(txn.Responses[0].GetResponseRange())
			require.Equal(t, "created", string(get.Kvs[0].Value))
			require.Equal(t, int64(1), (*pb.RangeResponse)(get).Count)
		}
	}
	get, err := client.Do(ctx, clientv3.OpGet("k", clientv3.WithKeysOnly()))
	require.NoError(t, err)
	require.Empty(t, get.Get().Kvs[0].Value)
	deleted, err := client.Delete(ctx, "k", clientv3.WithPrevKV())
	require.NoError(t, err)
	require.Len(t, deleted.PrevKvs, 1)
}

func TestErrorsAreTheSameValues(t *testing.T) {
	cluster, client, ctx := start(t)
	for range 3 {
		_, err := cluster.Put("k", "v")
		require.NoError(t, err)
	}
	require.NoError(t, cluster.Compact(3))
	_, err := client.Get(ctx, "k", clientv3.WithRev(1))
	requireSame(t, rpctypes.ErrCompacted, err)
	watch := <-client.Watch(ctx, "k", clientv3.WithRev(1))
	requireSame(t, rpctypes.ErrCompacted, watch.Err())
	_, err = client.KeepAliveOnce(ctx, 12345)
	requireSame(t, rpctypes.ErrLeaseNotFound, err)

	barrier := recipe.NewBarrier(client, "barrier")
	require.NoError(t, barrier.Hold())
	requireSame(t, recipe.ErrKeyExists, barrier.Hold())

	_, err = clientv3.New(clientv3.Config{})
	requireSame(t, clientv3.ErrNoAvailableEndpoints, err)
	halted := error(clientv3.ErrKeepAliveHalted{Reason: err})
	var target clientv3.ErrKeepAliveHalted
	require.True(t, errors.As(halted, &target) && target.Reason == err)
}

// TestAssignedChannelSize gives the channels of renewals a size of the program's choosing.
func TestAssignedChannelSize(t *testing.T) {
	_, client, ctx := start(t)
	require.Equal(t, 16, clientv3.LeaseResponseChSize)
	defer func(size int) { clientv3.LeaseResponseChSize = size }(clientv3.LeaseResponseChSize)
	for _, size := range []int{3, 5} {
		grant, err := client.Grant(ctx, 60)
		require.NoError(t, err)
		clientv3.LeaseResponseChSize = size
		keepAlive, err := client.KeepAlive(ctx, grant.ID)
		require.NoError(t, err)
		require.Equal(t, size, cap(keepAlive))
		require.Equal(t, grant.ID, (<-keepAlive).ID)
	}
}

func TestContextsAndOptions(t *testing.T) {
	require.True(t, clientv3.IsOptsWithPrefix([]clientv3.OpOption{clientv3.WithPrefix()}))
	require.Equal(t, "b", clientv3.GetPrefixRangeEnd("a"))
	require.True(t, clientv3.IsConnCanceled(context.Canceled))
	var options []clientv3.OpOption
	options = append(options, clientv3.WithFirstKey()...)
	op := clientv3.OpGet("k", options...)
	require.True(t, op.IsGet())
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(t.Context()), time.Minute)
	defer cancel()
	require.NoError(t, ctx.Err())
	require.NotNil(t, clientv3.NewCtxClient(ctx, clientv3.WithZapLogger(nil)))
}
