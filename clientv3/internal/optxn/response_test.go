package optxn_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/jobs"
	"github.com/quorate/quorate/clientv3/leasing"
	"github.com/quorate/quorate/clientv3/mirror"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/store"
)

// always is a Fence that holds.
type always struct{}

func (always) Fence() clientv3.Cmp { return clientv3.Compare(clientv3.Version("k"), "=", 0) }
func (always) Err() error          { return nil }

// TestResponsesThatDoNotMatch reads and writes at a member that sends no headers, no response to the operations of a
// transaction, and keys that were not requested.
func TestResponsesThatDoNotMatch(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		cluster.On("Range", func(call *fakeetcd.Call) {
			call.Answer(&pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Key: []byte("x"), ModRevision: 1}}, Count: 1}, nil)
		})
		cluster.On("Txn", func(call *fakeetcd.Call) { call.Answer(&pb.TxnResponse{Succeeded: true}, nil) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		get, err := client.Get(ctx, "k")
		require.NoError(t, err)
		assert.Zero(t, get.Header.Revision)
		_, err = optxn.Fenced(client, always{}, nil).Put(ctx, "k", "v")
		require.ErrorContains(t, err, "does not match its request")
		_, errs := mirror.NewSyncer(client, "long prefix", 0).SyncBase(ctx)
		require.ErrorContains(t, <-errs, "does not say at which revision")
		_, err = store.New(client, "long prefix", store.Bytes()).Get(ctx, "k")
		require.NoError(t, err)
		queue := clienttest.Must(jobs.New(client, jobs.Config{Name: "long prefix"}))
		assert.Zero(t, clienttest.Must(queue.Count(ctx)))
		assert.Equal(t, []string{"x"}, clienttest.Must(queue.DeadLetters(ctx, 0)))
		kv, stop, err := leasing.NewKV(client, "long prefix")
		require.NoError(t, err)
		defer stop()
		_, err = kv.Put(ctx, "k", "v")
		require.ErrorContains(t, err, "does not match its request")
	})
}
