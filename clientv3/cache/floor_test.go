package cache_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/leasing"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

type result struct {
	resp *clientv3.GetResponse
	err  error
}

func getAsync(ctx context.Context, c *cache.Cache, key string, opts ...clientv3.OpOption) <-chan result {
	done := make(chan result, 1)
	go func() {
		resp, err := c.Get(ctx, key, opts...)
		done <- result{resp, err}
	}()
	return done
}

// TestReadsJoinNoFloorUnderWay begins a read after a write that was acknowledged while a floor was under way.
// The floor has read an older revision, and the read still sees the write.
func TestReadsJoinNoFloorUnderWay(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		c := serve(t, client, cache.Config{})
		release := make(chan struct{})
		floor := cluster.Once("Range", func(call *fakeetcd.Call) {
			_, err := call.Execute()
			assert.NoError(t, err)
			assert.NoError(t, call.Hold(release))
		})
		first := getAsync(t.Context(), c, "a/1")
		synctest.Wait()
		require.Equal(t, 1, floor.Ran())
		wrote := clienttest.Put(t, cluster, "b", "not cached, so that only progress shows it")
		second := getAsync(t.Context(), c, "a/1")
		synctest.Wait()
		close(release)
		require.NoError(t, (<-first).err)
		r := <-second
		require.NoError(t, r.err)
		require.GreaterOrEqual(t, r.resp.Header.Revision, wrote)
	})
}

// TestReadsShareAFloor begins many reads while a floor is under way. The next floor serves them all, and is sent after all
// have begun.
func TestReadsShareAFloor(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		c := serve(t, client, cache.Config{})
		release := make(chan struct{})
		cluster.Once("Range", func(call *fakeetcd.Call) { assert.NoError(t, call.Hold(release)) })
		reads := []<-chan result{getAsync(t.Context(), c, "a/1")}
		synctest.Wait()
		before := c.Stats().Floors
		for range 50 {
			reads = append(reads, getAsync(t.Context(), c, "a/1"))
		}
		synctest.Wait()
		close(release)
		for _, r := range reads {
			require.NoError(t, (<-r).err)
		}
		require.Equal(t, before+1, c.Stats().Floors)
	})
}

// TestProgressThatComesTooEarly withholds a write from the watch, and answers progress requests at once, as an old etcd does. The
// cache ignores this progress, so the read goes to the server.
func TestProgressThatComesTooEarly(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		clienttest.Put(t, cluster, "a/1", "old")
		cluster.On("Watch", func(call *fakeetcd.Call) {
			for {
				req, err := call.Recv()
				if err != nil {
					return
				}
				r := req.(*pb.WatchRequest)
				resp := &pb.WatchResponse{Header: &pb.ResponseHeader{ClusterId: fakeetcd.ClusterID, Revision: cluster.Revision()}, WatchId: -1}
				if create := r.GetCreateRequest(); create != nil {
					resp.WatchId, resp.Created = create.WatchId, true
				}
				_ = call.Send(resp)
			}
		})
		c := serve(t, client, cache.Config{})
		clienttest.Put(t, cluster, "a/1", "new")
		require.Equal(t, "new", string(clienttest.Get(t, c, "a/1").Kvs[0].Value))
		require.ErrorContains(t, c.Freshness().Err, "answers early")
	})
}

// TestKine uses a server whose progress proves nothing, as that of a grpc-proxy. The server answers linearizable gets, memory
// serializable ones.
func TestKine(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	require.NoError(t, cluster.SetWatchOptions(fakeetcd.WatchOptions{Kine: true}))
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
	clienttest.Put(t, cluster, "a/1", "v")
	require.Eventually(t, func() bool {
		resp, err := c.Get(clienttest.Within(t), "a/1", clientv3.WithSerializable())
		return err == nil && resp.Count == 1 && c.Stats().Events == 1
	}, testTimeout, time.Millisecond)
	clienttest.Put(t, cluster, "b", "v")
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		assert.ErrorContains(t, c.Freshness().Err, "kine")
	}, testTimeout, time.Millisecond)
	before := c.Stats()
	for range 10 {
		require.Equal(t, cluster.Revision(), clienttest.Get(t, c, "a/1").Header.Revision)
	}
	after := c.Stats()
	require.Equal(t, before.Misses+10, after.Misses)
	require.Equal(t, before.ProgressRequests, after.ProgressRequests)
	require.Zero(t, after.Timeouts)
}

// TestOverLeasing uses a cache over a KV that serves keys from memory, with the revision of an earlier response, and has no
// streams.
func TestOverLeasing(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	for i := range 600 { // three pages
		clienttest.Put(t, cluster, fmt.Sprint("a/", i), "v")
	}
	other := clienttest.Connect(t, cluster)
	kv, closeKV, err := leasing.NewKV(client, "_leasing/")
	require.NoError(t, err)
	t.Cleanup(closeKV)
	client.KV = kv
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}, MaxWait: testTimeout})
	awaitServing(t, c, "a/1")
	for range 20 {
		written := clienttest.Must(other.Put(clienttest.Within(t), "a/1", "v"))
		require.GreaterOrEqual(t, clienttest.Get(t, c, "a/1").Kvs[0].ModRevision, written.Header.Revision)
	}
	require.EqualValues(t, 600, clienttest.Get(t, c, "a/", clientv3.WithPrefix()).Count)
}

// The floor reads a key of one prefix for the reads of all.
func TestFloorIsDeniedForAPrefixThatWasDropped(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		clienttest.Put(t, cluster, "a/1", "v")
		dropped := make(chan struct{})
		c := newCache(t, client, cache.Config{Prefixes: []string{"a/", "b/"}, ProbeInterval: time.Second, OnDrop: func(string, error) { close(dropped) }})
		synctest.Wait()
		cluster.On("Range", func(call *fakeetcd.Call) {
			if strings.HasPrefix(string(call.Request.(*pb.RangeRequest).Key), "b/") {
				<-dropped
				call.Answer(nil, errDenied)
			}
		})
		cluster.On("Txn", func(call *fakeetcd.Call) {
			r := call.Request.(*pb.TxnRequest)
			if slices.ContainsFunc(slices.Concat(r.Success, r.Failure), func(op *pb.RequestOp) bool {
				return string(op.GetRequestRange().GetKey()) == "b/"
			}) {
				call.Answer(nil, errDenied)
			}
		})
		for range 3 {
			clienttest.Must(c.Get(t.Context(), "a/1"))
		}
	})
}
