package cache_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/leasing"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// isFloor reports whether a call is the floor of a cache of "a/".
func isFloor(call *fakeetcd.Call) bool {
	r := call.Request.(*pb.RangeRequest)
	return string(r.Key) == "a/" && r.CountOnly && !r.Serializable
}

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

// early is a KV with a mistake: it answers every second floor by the one before, as a cache would that lets reads
// join a floor under way.
type early struct {
	clientv3.KV

	mu   sync.Mutex
	last *clientv3.GetResponse
}

func (e *early) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	op := clientv3.OpGet(key, opts...)
	if last := e.last; op.IsCountOnly() && last != nil {
		e.last = nil
		return last, nil
	}
	resp, err := e.KV.Get(ctx, key, opts...)
	if op.IsCountOnly() {
		e.last = resp
	}
	return resp, err
}

// TestReadsJoinNoFloorUnderWay has a floor read its revision, then a write acknowledged, and then a read begin
// before the floor has returned. The read sees the write, unless it joins that floor.
func TestReadsJoinNoFloorUnderWay(t *testing.T) {
	run := func(t *testing.T, planted bool) (wrote int64, read *clientv3.GetResponse) {
		cluster, client := clienttest.StartClient(t, 1)
		clienttest.Put(t, cluster, "a/1", "old")
		under, release := make(chan struct{}), make(chan struct{})
		held := false
		c := newServing(t, client)
		c.Close()
		if planted {
			client.KV = &early{KV: client.KV}
		}
		var mu sync.Mutex
		cluster.On("Range", func(call *fakeetcd.Call) {
			if !isFloor(call) {
				return
			}
			mu.Lock()
			first := !held
			held = true
			mu.Unlock()
			if first {
				_, err := call.Execute()
				assert.NoError(t, err)
				close(under)
				assert.NoError(t, call.Hold(release))
			}
		})
		c = newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
		var first <-chan result
		require.Eventually(t, func() bool { // the watch may not be created yet
			first = getAsync(clienttest.Within(t), c, "a/1")
			select {
			case <-under:
				return true
			case <-first:
				return false
			}
		}, patience, time.Millisecond)
		wrote = clienttest.Put(t, cluster, "b", "not cached, so that only progress shows it")
		second := getAsync(clienttest.Within(t), c, "a/1")
		close(release)
		r := <-first
		require.NoError(t, r.err)
		r = <-second
		require.NoError(t, r.err)
		return wrote, r.resp
	}
	t.Run("sound", func(t *testing.T) {
		wrote, read := run(t, false)
		require.GreaterOrEqual(t, read.Header.Revision, wrote)
	})
	t.Run("planted", func(t *testing.T) {
		wrote, read := run(t, true)
		require.Less(t, read.Header.Revision, wrote, "the mistake is not found")
	})
}

// TestReadsShareAFloor has many reads wait while a floor is under way. The next one serves them all, and is sent after all
// have begun.
func TestReadsShareAFloor(t *testing.T) {
	const readers = 50
	cluster, client := clienttest.StartClient(t, 1)
	clienttest.Put(t, cluster, "a/1", "v")
	c := newServing(t, client)
	under, release := make(chan struct{}, 1), make(chan struct{})
	var mu sync.Mutex
	n := 0
	cluster.On("Range", func(call *fakeetcd.Call) {
		mu.Lock()
		n++
		first := n == 1
		mu.Unlock()
		if first {
			under <- struct{}{}
			assert.NoError(t, call.Hold(release))
		}
	})
	reads := []<-chan result{getAsync(clienttest.Within(t), c, "a/1")}
	<-under
	before := c.Stats().Floors
	var begun sync.WaitGroup
	for range readers {
		begun.Add(1)
		ctx := &noted{Context: clienttest.Within(t), note: sync.OnceFunc(begun.Done)}
		reads = append(reads, getAsync(ctx, c, "a/1"))
	}
	begun.Wait()
	close(release)
	for _, r := range reads {
		require.NoError(t, (<-r).err)
	}
	require.LessOrEqual(t, c.Stats().Floors-before, int64(2), "one, and one more for a read that came late")
}

// noted notes when a caller begins to wait for it, which is when a read has joined a floor.
type noted struct {
	context.Context
	note func()
}

func (n *noted) Done() <-chan struct{} {
	n.note()
	return n.Context.Done()
}

// earlyServer serves watches as an old etcd does: it answers progress requests at once, though it has not sent the events. It does
// so from the beginning, or only when a watch has been created, which no client can find out.
func earlyServer(cluster *fakeetcd.Cluster, fromTheStart bool) {
	cluster.On("Watch", func(call *fakeetcd.Call) {
		created := false
		for {
			req, err := call.Recv()
			if err != nil {
				return
			}
			header := func() *pb.ResponseHeader {
				return &pb.ResponseHeader{ClusterId: 1, MemberId: 1, RaftTerm: 1, Revision: cluster.Revision()}
			}
			r := req.(*pb.WatchRequest)
			switch {
			case r.GetCreateRequest() != nil:
				created = true
				_ = call.Send(&pb.WatchResponse{Header: header(), WatchId: r.GetCreateRequest().WatchId, Created: true})
			case r.GetProgressRequest() != nil && (created || fromTheStart):
				_ = call.Send(&pb.WatchResponse{Header: header(), WatchId: -1})
			}
		}
	})
}

// TestProgressThatComesTooEarly has a write that the server keeps from the watch. The cache ignores this progress, so the read goes to
// the server; a cache that uses it answers what was before.
func TestProgressThatComesTooEarly(t *testing.T) {
	run := func(t *testing.T, fromTheStart bool) string {
		cluster, client := clienttest.StartClient(t, 1)
		clienttest.Put(t, cluster, "a/1", "old")
		cluster.On("Range", func(call *fakeetcd.Call) { // of the same cluster as the watch
			resp, err := call.Execute()
			if err == nil {
				h := resp.(*pb.RangeResponse).Header
				h.ClusterId, h.MemberId = 1, 1
			}
			call.Answer(resp, err)
		})
		earlyServer(cluster, fromTheStart)
		c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}, MaxWait: patience})
		require.NoError(t, cluster.Wait(clienttest.Within(t), "Watch", 1))
		if !fromTheStart {
			awaitServing(t, c, "a/1")
		}
		clienttest.Put(t, cluster, "a/1", "new")
		resp := clienttest.Get(t, c, "a/1")
		return string(resp.Kvs[0].Value)
	}
	t.Run("found out", func(t *testing.T) { require.Equal(t, "new", run(t, true)) })
	t.Run("believed", func(t *testing.T) { require.Equal(t, "old", run(t, false), "the mistake is not found") })
}

// TestOtherServers has servers whose progress proves nothing. Linearizable gets are right all the same, by the server's
// own answer; serializable ones come from memory.
func TestOtherServers(t *testing.T) {
	for name, o := range map[string]fakeetcd.WatchOptions{"kine": {Kine: true}, "grpc-proxy": {Proxy: true}} {
		t.Run(name, func(t *testing.T) {
			cluster, client := clienttest.StartClient(t, 1)
			require.NoError(t, cluster.SetWatchOptions(o))
			c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
			clienttest.Put(t, cluster, "a/1", "v")
			require.Eventually(t, func() bool {
				resp, err := c.Get(clienttest.Within(t), "a/1", clientv3.WithSerializable())
				return err == nil && resp.Count == 1 && c.Stats().Events == 1
			}, patience, time.Millisecond)
			clienttest.Put(t, cluster, "b", "v")
			before := c.Stats()
			for range 10 {
				resp := clienttest.Get(t, c, "a/1")
				require.Equal(t, cluster.Revision(), resp.Header.Revision)
			}
			after := c.Stats()
			require.Equal(t, before.Misses+10, after.Misses)
			require.Equal(t, before.ProgressRequests, after.ProgressRequests)
			require.Zero(t, after.Timeouts)
		})
	}
}

// TestAFailedFloorFailsItsReads has the server refuse floors, in the words that a plain get would bring.
func TestAFailedFloorFailsItsReads(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	c := newServing(t, client)
	refusal := cluster.On("Range", func(call *fakeetcd.Call) { call.Answer(proto.Message(nil), errDenied) })
	_, err := c.Get(clienttest.Within(t), "a/1")
	require.Equal(t, denied, err)
	refusal.Remove()
	clienttest.Get(t, c, "a/1")
}

// TestOverLeasing has a cache over a KV that serves keys from memory, with the revision of an earlier response.
func TestOverLeasing(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	clienttest.Put(t, cluster, "a/1", "v")
	other := clienttest.Connect(t, cluster)
	kv, closeKV, err := leasing.NewKV(client, "_leasing/")
	require.NoError(t, err)
	t.Cleanup(closeKV)
	client.KV = kv
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}, MaxWait: patience})
	awaitServing(t, c, "a/1")
	for range 20 {
		written, err := other.Put(clienttest.Within(t), "a/1", "v")
		require.NoError(t, err)
		resp := clienttest.Get(t, c, "a/1")
		require.GreaterOrEqual(t, resp.Kvs[0].ModRevision, written.Header.Revision)
	}
}
