package endpoints_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
)

// inBubble runs a test in virtual time, see clienttest.StartPair.
func inBubble(t *testing.T, test func(t *testing.T, cluster *fakeetcd.Cluster, client, other *clientv3.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster, client, other := clienttest.StartPair(t)
		test(t, cluster, client, other)
	})
}

// isList distinguishes lists from the client's probes of a member, which may arrive at any time.
func isList(req *pb.RangeRequest) bool { return string(req.Key) == "svc/" }

// watch returns a channel whose watch is established.
func watch(t *testing.T, client *clientv3.Client) endpoints.WatchChannel {
	t.Helper()
	ch := clienttest.Must(newManager(t, client, "svc").NewWatchChannel(t.Context()))
	synctest.Wait()
	return ch
}

// requireNext checks the next updates of the channel.
func requireNext(t *testing.T, ch endpoints.WatchChannel, want ...*endpoints.Update) {
	t.Helper()
	require.ElementsMatch(t, want, clienttest.Next(t, ch))
}

// register writes endpoints through another manager.
func register(t *testing.T, client *clientv3.Client, updates ...*endpoints.UpdateWithOpts) {
	t.Helper()
	require.NoError(t, newManager(t, client, "svc").Update(t.Context(), updates))
}

func add(key, addr string) *endpoints.Update {
	return &endpoints.Update{Op: endpoints.Add, Key: key, Endpoint: endpoints.Endpoint{Addr: addr}}
}

func gone(key string) *endpoints.Update {
	return &endpoints.Update{Op: endpoints.Delete, Key: key}
}

func adding(name, addr string) *endpoints.UpdateWithOpts {
	return endpoints.NewAddUpdateOpts("svc/"+name, endpoints.Endpoint{Addr: addr})
}

func deleting(name string) *endpoints.UpdateWithOpts {
	return endpoints.NewDeleteUpdateOpts("svc/" + name)
}

func TestWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client, _ *clientv3.Client) {
		none := watch(t, client)
		register(t, client, adding("b", "b"), adding("a", "a"))
		ch := watch(t, client)
		present := []*endpoints.Update{add("svc/a", "a"), add("svc/b", "b")}
		require.Equal(t, present, clienttest.Next(t, ch))
		requireNext(t, none, present...)

		clienttest.Put(t, cluster, "svc2/x", `{"Addr":"of another target"}`)
		clienttest.Put(t, cluster, "svc/a", "what is this?")
		register(t, client, adding("b", "b2"), deleting("a"), adding("c", "c"))
		requireNext(t, ch, add("svc/b", "b2"), gone("svc/a"), add("svc/c", "c"))
	})
}

// The changes during an outage are compacted: the endpoints are listed again, until a list succeeds.
func TestWatchOutlivesCompaction(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client, other *clientv3.Client) {
		register(t, client, adding("changed", "1"), adding("gone", "2"), adding("same", "3"), adding("spoilt", "4"), adding("twice", "8"))
		ch := watch(t, client)
		require.Len(t, clienttest.Next(t, ch), 5)
		register(t, client, deleting("twice"))
		requireNext(t, ch, gone("svc/twice"))

		cluster.Member(0).Stop()
		register(t, other, adding("changed", "5"), deleting("gone"), adding("new", "6"), adding("twice", "8"))
		register(t, other, adding("same", "3"))
		clienttest.Put(t, cluster, "svc/spoilt", "{")
		require.NoError(t, cluster.Compact(cluster.Revision()))
		for range 3 {
			cluster.Once("Range", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCCorrupt) })
		}
		cluster.Member(0).Start()

		require.Equal(t, []*endpoints.Update{
			add("svc/changed", "5"), add("svc/new", "6"), add("svc/twice", "8"), gone("svc/gone"),
		}, clienttest.Next(t, ch))
		register(t, other, adding("later", "7"))
		requireNext(t, ch, add("svc/later", "7"))
	})
}

// The server refuses the watch for a while.
func TestWatchIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client, _ *clientv3.Client) {
		refused := clienttest.RefuseWatches(cluster, rpctypes.ErrGRPCPermissionDenied)
		ch := watch(t, client)
		require.NoError(t, cluster.Wait(t.Context(), "Range", 3), "the endpoints are listed repeatedly")
		refused.Remove()
		register(t, client, adding("a", "a"))
		requireNext(t, ch, add("svc/a", "a"))
	})
}

// A list of a member that lags must not revert what was delivered.
func TestWatchDoesNotGoBack(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client, other *clientv3.Client) {
		ch := watch(t, client)
		register(t, client, adding("a", "a"))
		requireNext(t, ch, add("svc/a", "a"))

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
		requireNext(t, ch, add("svc/b", "b"), add("svc/c", "c"))
		require.EqualValues(t, 1, stale.Load())
	})
}

// The cluster was restored from a backup: its revision is lower, and its list is valid.
func TestWatchOfARestoredCluster(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client, _ *clientv3.Client) {
		register(t, client, adding("a", "a"))
		cluster.Once("Watch", func(c *fakeetcd.Call) {
			for {
				req, err := c.Recv()
				if !assert.NoError(t, err) {
					return
				}
				if create := req.(*pb.WatchRequest).GetCreateRequest(); create != nil {
					header := &pb.ResponseHeader{Revision: 100}
					_ = c.Send(&pb.WatchResponse{Header: header, WatchId: create.WatchId, Created: true})
					_ = c.Send(&pb.WatchResponse{Header: header, WatchId: create.WatchId, Canceled: true, CompactRevision: 100})
					<-c.Context().Done()
					return
				}
			}
		})
		ch := watch(t, client)
		requireNext(t, ch, add("svc/a", "a"))
		register(t, client, deleting("a"))
		requireNext(t, ch, gone("svc/a"))
		var serializable []bool
		for _, call := range cluster.Calls("Range") {
			if req := call.Request().(*pb.RangeRequest); isList(req) {
				serializable = append(serializable, req.Serializable)
			}
		}
		require.Equal(t, []bool{true, true, false}, serializable, "a lower revision is confirmed by a linearizable read")
	})
}

// A watch that is not read ends with its context, or with its client, in an outage too.
func TestWatchEnds(t *testing.T) {
	for name, outage := range map[string]bool{"while etcd serves": false, "in an outage": true} {
		for by, end := range map[string]func(cancel func(), client *clientv3.Client){
			"context": func(cancel func(), _ *clientv3.Client) { cancel() },
			"client":  func(_ func(), client *clientv3.Client) { _ = client.Close() },
		} {
			t.Run(by+" "+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, cluster *fakeetcd.Cluster, client, other *clientv3.Client) {
					register(t, client, adding("a", "a"))
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					m := newManager(t, client, "svc")
					ch, err := m.NewWatchChannel(ctx)
					require.NoError(t, err)
					synctest.Wait()
					if outage {
						cluster.Member(0).Stop()
					}
					register(t, other, adding("b", "b"))
					synctest.Wait()
					end(cancel, client)
					synctest.Wait()
					require.Len(t, clienttest.Next(t, ch), 1)
					_, open := <-ch
					require.False(t, open, "nothing waits for a reader")
					if by == "client" {
						_, err = m.NewWatchChannel(t.Context())
						require.True(t, clientv3.IsConnCanceled(err), "%v", err)
					}
				})
			})
		}
	}
}
