package batch_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/batch"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

var shareAll = batch.Config{JoinReads: true, GroupWrites: true, MaxAlone: 1}

// TestResponsesAreThoseOfPlainCalls compares what operations return that share an RPC with
// what they return alone.
func TestResponsesAreThoseOfPlainCalls(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		ctx := t.Context()
		kv := batch.New(client, shareAll)
		for i := range 5 {
			_, err := client.Put(ctx, fmt.Sprint("k", i), fmt.Sprint("v", i))
			require.NoError(t, err)
		}
		ops := []clientv3.Op{
			clientv3.OpGet("k1"),
			clientv3.OpGet("k1", clientv3.WithKeysOnly()),
			clientv3.OpGet("k1", clientv3.WithCountOnly()),
			clientv3.OpGet("k", clientv3.WithPrefix(), clientv3.WithLimit(2)),
			clientv3.OpGet("k", clientv3.WithPrefix(), clientv3.WithLimit(3)),
			clientv3.OpGet("k3", clientv3.WithFromKey(), clientv3.WithLimit(3)),
			clientv3.OpGet("k", clientv3.WithPrefix(), clientv3.WithCountOnly()),
			clientv3.OpGet("absent"),
		}
		release := clienttest.Hold(cluster, "Range")
		var all sync.WaitGroup
		all.Go(func() { _, err := kv.Get(ctx, "blocker"); assert.NoError(t, err) })
		synctest.Wait()
		got := make([]clientv3.OpResponse, 2*len(ops))
		for i := range got {
			all.Go(func() {
				resp, err := kv.Do(ctx, ops[i%len(ops)])
				assert.NoError(t, err)
				got[i] = resp
			})
		}
		synctest.Wait()
		require.Equal(t, 1, cluster.Count("Range"))
		release()
		all.Wait()
		require.Equal(t, 1, cluster.Count("Range"))
		require.Equal(t, 1, cluster.Count("Txn"))
		for i, resp := range got {
			want, err := client.Do(ctx, ops[i%len(ops)])
			require.NoError(t, err)
			require.True(t, proto.Equal((*pb.RangeResponse)(want.Get()), (*pb.RangeResponse)(resp.Get())), "%v is not %v", resp.Get(), want.Get())
		}
	})
}
