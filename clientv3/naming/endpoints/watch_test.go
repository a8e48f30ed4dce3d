package endpoints_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
)

// createRequest receives the request that creates a watch on a stream that a test serves,
// and returns the watch's id.
func createRequest(c *fakeetcd.Call) (int64, error) {
	for {
		req, err := c.Recv()
		if err != nil {
			return 0, err
		}
		if create := req.(*pb.WatchRequest).GetCreateRequest(); create != nil {
			return create.WatchId, nil
		}
	}
}

// isList distinguishes lists from the client's probes of a member, which may arrive at any time.
func isList(req *pb.RangeRequest) bool { return string(req.Key) == "svc/" }

func watch(t *testing.T, client *clientv3.Client) endpoints.WatchChannel {
	t.Helper()
	ch, err := newManager(t, client, "svc").NewWatchChannel(clienttest.Within(t))
	require.NoError(t, err)
	return ch
}

// register writes endpoints through another manager.
func register(t *testing.T, client *clientv3.Client, updates ...*endpoints.UpdateWithOpts) {
	t.Helper()
	require.NoError(t, newManager(t, client, "svc").Update(clienttest.Within(t), updates))
}

func adding(name, addr string) *endpoints.UpdateWithOpts {
	return endpoints.NewAddUpdateOpts("svc/"+name, endpoints.Endpoint{Addr: addr})
}

func deleting(name string) *endpoints.UpdateWithOpts {
	return endpoints.NewDeleteUpdateOpts("svc/" + name)
}

func TestWatch(t *testing.T) {
	cluster, client, _ := start(t)
	register(t, client, adding("b", "b"), adding("a", "a"))
	ch := watch(t, client)
	require.Equal(t, []*endpoints.Update{add("svc/a", "a"), add("svc/b", "b")}, next(t, ch))

	clienttest.Put(t, cluster, "svc2/x", `{"Addr":"of another target"}`)
	clienttest.Put(t, cluster, "svc/a", "what is this?")
	register(t, client, adding("b", "b2"), deleting("a"), adding("c", "c"))
	require.ElementsMatch(t, []*endpoints.Update{add("svc/b", "b2"), gone("svc/a"), add("svc/c", "c")}, next(t, ch))
}

func TestWatchWithoutEndpoints(t *testing.T) {
	_, client, _ := start(t)
	ch := watch(t, client)
	register(t, client, adding("a", "a"))
	require.Equal(t, []*endpoints.Update{add("svc/a", "a")}, next(t, ch))
}

// The changes during an outage are compacted: the endpoints are listed again.
func TestWatchOutlivesCompaction(t *testing.T) {
	cluster, client, other := start(t)
	register(t, client, adding("changed", "1"), adding("gone", "2"), adding("same", "3"), adding("spoilt", "4"))
	ch := watch(t, client)
	require.Len(t, next(t, ch), 4)
	require.NoError(t, cluster.Wait(clienttest.Within(t), "Watch", 1))

	cluster.Member(0).Stop()
	register(t, other, adding("changed", "5"), deleting("gone"), adding("new", "6"))
	register(t, other, adding("same", "3"))
	clienttest.Put(t, cluster, "svc/spoilt", "{")
	require.NoError(t, cluster.Compact(cluster.Revision()))
	cluster.Member(0).Start()

	require.Equal(t, []*endpoints.Update{
		add("svc/changed", "5"), add("svc/new", "6"), gone("svc/gone"),
	}, next(t, ch))
	register(t, other, adding("later", "7"))
	require.Equal(t, []*endpoints.Update{add("svc/later", "7")}, next(t, ch))
}

// The server refuses the watch for a while.
func TestWatchIsRefused(t *testing.T) {
	cluster, client, _ := start(t)
	refuse := func(c *fakeetcd.Call) {
		if _, err := createRequest(c); err != nil {
			return
		}
		_ = c.Send(&pb.WatchResponse{
			Header: &pb.ResponseHeader{Revision: 1}, WatchId: -1, Created: true, Canceled: true,
			CancelReason: rpctypes.ErrGRPCPermissionDenied.Error(),
		})
		<-c.Context().Done()
	}
	refused := cluster.On("Watch", refuse)
	ch := watch(t, client)
	require.NoError(t, cluster.Wait(clienttest.Within(t), "Range", 3), "the endpoints are listed repeatedly")
	refused.Remove()
	register(t, client, adding("a", "a"))
	require.Equal(t, []*endpoints.Update{add("svc/a", "a")}, next(t, ch))
}

// A list that fails is repeated.
func TestListFails(t *testing.T) {
	cluster, client, other := start(t)
	ch := watch(t, client)
	require.NoError(t, cluster.Wait(clienttest.Within(t), "Watch", 1))
	cluster.Member(0).Stop()
	register(t, other, adding("b", "b"))
	register(t, other, adding("a", "a"))
	require.NoError(t, cluster.Compact(cluster.Revision()))
	for range 3 {
		cluster.Once("Range", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCCorrupt) })
	}
	cluster.Member(0).Start()
	require.Equal(t, []*endpoints.Update{add("svc/a", "a"), add("svc/b", "b")}, next(t, ch))
}

// A list of a member that lags must not revert what was delivered.
func TestWatchDoesNotGoBack(t *testing.T) {
	cluster, client, other := start(t)
	ch := watch(t, client)
	register(t, client, adding("a", "a"))
	require.Equal(t, []*endpoints.Update{add("svc/a", "a")}, next(t, ch))

	cluster.Member(0).Stop()
	register(t, other, adding("b", "b"))
	register(t, other, adding("c", "c"))
	require.NoError(t, cluster.Compact(cluster.Revision()))
	var stale atomic.Int32
	cluster.On("Range", func(c *fakeetcd.Call) {
		if req := c.Request.(*pb.RangeRequest); isList(req) && req.Serializable && stale.Add(1) == 1 {
			c.Answer(&pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 1}}, nil)
		}
	})
	cluster.Member(0).Start()
	require.Equal(t, []*endpoints.Update{add("svc/b", "b"), add("svc/c", "c")}, next(t, ch))
	require.EqualValues(t, 1, stale.Load())
}

// The same with events that were delivered before, and no compaction.
func TestWatchDoesNotGoBackAfterEvents(t *testing.T) {
	cluster, client, _ := start(t)
	refuse := make(chan struct{})
	cluster.Once("Watch", func(c *fakeetcd.Call) {
		sent := make(chan *pb.WatchResponse, 1)
		c.OnSend(func(resp proto.Message) bool {
			if r := resp.(*pb.WatchResponse); len(r.Events) > 0 {
				sent <- r
			}
			return true
		})
		go func() {
			<-refuse
			r := <-sent
			_ = c.Send(&pb.WatchResponse{
				Header: r.Header, WatchId: r.WatchId, Canceled: true, CancelReason: rpctypes.ErrGRPCPermissionDenied.Error(),
			})
		}()
		_, _ = c.Execute()
	})
	ch := watch(t, client)
	register(t, client, adding("a", "a"))
	require.Equal(t, []*endpoints.Update{add("svc/a", "a")}, next(t, ch))

	lists := make(chan bool, 100) // whether they were serializable
	var stale atomic.Int32
	cluster.On("Range", func(c *fakeetcd.Call) {
		if req := c.Request.(*pb.RangeRequest); isList(req) {
			lists <- req.Serializable
			if stale.Add(1) == 1 {
				c.Answer(&pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 1}}, nil)
			}
		}
	})
	close(refuse)
	require.True(t, <-lists)
	require.False(t, <-lists, "a lower revision is confirmed by a linearizable read")
	register(t, client, adding("b", "b"))
	require.Equal(t, []*endpoints.Update{add("svc/b", "b")}, next(t, ch))
}

// The cluster was restored from a backup: its revision is lower, and its list is valid.
func TestWatchOfARestoredCluster(t *testing.T) {
	cluster, client, _ := start(t)
	register(t, client, adding("a", "a"))
	watched := make(chan *fakeetcd.Call, 1)
	cluster.Once("Watch", func(c *fakeetcd.Call) {
		id, err := createRequest(c)
		if !assert.NoError(t, err) {
			return
		}
		_ = c.Send(&pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 100}, WatchId: id, Created: true})
		_ = c.Send(&pb.WatchResponse{
			Header: &pb.ResponseHeader{Revision: 100}, WatchId: id, Canceled: true, CompactRevision: 100,
		})
		watched <- c
		<-c.Context().Done()
	})
	ch := watch(t, client)
	require.Equal(t, []*endpoints.Update{add("svc/a", "a")}, next(t, ch))
	<-watched
	register(t, client, deleting("a"))
	require.Equal(t, []*endpoints.Update{gone("svc/a")}, next(t, ch))
	var serializable []bool
	for _, call := range cluster.Calls("Range") {
		if req := call.Request().(*pb.RangeRequest); isList(req) {
			serializable = append(serializable, req.Serializable)
		}
	}
	require.Equal(t, []bool{true, true, false}, serializable, "a lower revision is confirmed by a linearizable read")
}

// The channel is not read, neither before its context ends nor after. goleak finds the goroutine
// if it is left.
func TestWatchWithoutReader(t *testing.T) {
	cluster, client, _ := start(t)
	register(t, client, adding("a", "a"))
	ctx, cancel := context.WithCancel(clienttest.Within(t))
	sent := make(chan struct{}, 10)
	cluster.Once("Watch", func(c *fakeetcd.Call) {
		c.OnSend(func(resp proto.Message) bool {
			if err := c.Send(resp); err == nil {
				sent <- struct{}{}
			}
			return false
		})
	})
	_, err := newManager(t, client, "svc").NewWatchChannel(ctx)
	require.NoError(t, err)
	<-sent // created
	for range 3 {
		register(t, client, adding("b", "b"))
		<-sent
	}
	cancel()
}

func TestWatchEndsWithItsClient(t *testing.T) {
	_, client, other := start(t)
	register(t, client, adding("a", "a"))
	ch := watch(t, client)
	register(t, other, adding("b", "b"))
	require.NoError(t, client.Close())
	requireClosed(t, ch)
	_, err := newManager(t, client, "svc").NewWatchChannel(clienttest.Within(t))
	require.True(t, clientv3.IsConnCanceled(err), "%v", err)
}

// The client is closed during an outage.
func TestWatchEndsInAnOutage(t *testing.T) {
	for name, end := range map[string]func(cancel func(), client *clientv3.Client){
		"context": func(cancel func(), _ *clientv3.Client) { cancel() },
		"client":  func(_ func(), client *clientv3.Client) { _ = client.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			cluster, client, _ := start(t)
			ctx, cancel := context.WithCancel(clienttest.Within(t))
			defer cancel()
			ch, err := newManager(t, client, "svc").NewWatchChannel(ctx)
			require.NoError(t, err)
			require.NoError(t, cluster.Wait(clienttest.Within(t), "Watch", 1))
			cluster.Member(0).Stop()
			end(cancel, client)
			requireClosed(t, ch)
		})
	}
}
