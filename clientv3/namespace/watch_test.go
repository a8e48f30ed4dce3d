package namespace_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/namespace"
)

func TestWatchRequest(t *testing.T) {
	for name, tt := range map[string]struct {
		prefix, key string
		opts        []clientv3.OpOption
		want        *pb.WatchCreateRequest
	}{
		"0xff":                                   {"\xff", "a", []clientv3.OpOption{clientv3.WithFromKey()}, &pb.WatchCreateRequest{Key: []byte("\xffa"), RangeEnd: []byte{0}, Fragment: true}},
		"no prefix":                              {"", "", []clientv3.OpOption{clientv3.WithPrefix()}, &pb.WatchCreateRequest{Key: []byte{0}, RangeEnd: []byte{0}, Fragment: true}},
		"the server's stand-in for an empty key": {"ns/", "", nil, &pb.WatchCreateRequest{Key: []byte("ns/\x00"), Fragment: true}},
		"options": {"ns/", "k", []clientv3.OpOption{
			clientv3.WithPrevKV(), clientv3.WithFragment(), clientv3.WithProgressNotify(), clientv3.WithFilterDelete(), clientv3.WithRev(5),
		}, &pb.WatchCreateRequest{
			Key: []byte("ns/k"), PrevKv: true, Fragment: true, ProgressNotify: true, StartRevision: 5,
			Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 1)
			namespace.NewWatcher(c, tt.prefix).Watch(t.Context(), tt.key, tt.opts...)
			var got *pb.WatchCreateRequest
			for _, req := range cluster.Calls("Watch")[0].Requests {
				if create := req.(*pb.WatchRequest).GetCreateRequest(); create != nil {
					got = create
				}
			}
			require.Empty(t, cmp.Diff(tt.want, got, protocmp.Transform(), protocmp.IgnoreFields(got, "watch_id")))
		})
	}
}

// TestWatchLeavesOptionsAlone gives options in a slice that has room for more.
func TestWatchLeavesOptionsAlone(t *testing.T) {
	_, c := clienttest.StartClient(t, 1)
	opts := make([]clientv3.OpOption, 2)
	opts[0] = clientv3.WithFromKey()
	namespace.NewWatcher(c, "ns/").Watch(t.Context(), "k", opts[:1]...)
	assert.Nil(t, opts[1])
}

// scripted is a Watcher whose watches are the channels that the test made.
type scripted struct {
	clientv3.Watcher
	watches chan clientv3.WatchChan
}

func (s scripted) Watch(context.Context, string, ...clientv3.OpOption) clientv3.WatchChan {
	return <-s.watches
}

func (s scripted) Close() error { return errors.New("closed") }

func script(watches ...clientv3.WatchChan) scripted {
	s := scripted{watches: make(chan clientv3.WatchChan, len(watches))}
	for _, w := range watches {
		s.watches <- w
	}
	return s
}

// TestWatchSharesNothing has one event delivered to two watches, as a Watcher may that
// has one watch for many readers.
func TestWatchSharesNothing(t *testing.T) {
	kv := &mvccpb.KeyValue{Key: []byte("ns/ns/k"), Value: []byte("v"), ModRevision: 2, CreateRevision: 1, Version: 2, Lease: 3}
	event := &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: kv, PrevKv: kv}
	before := proto.CloneOf(event)
	shared := make(chan clientv3.WatchResponse, 2)
	resp := clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: 2}, Events: []*clientv3.Event{event}}
	shared <- resp
	shared <- resp
	w := namespace.NewWatcher(script(shared), "ns/")
	watch := w.Watch(t.Context(), "k")
	for range 2 {
		got := <-watch
		require.Equal(t, resp.Header, got.Header)
		require.Len(t, got.Events, 1)
		want := proto.CloneOf(before)
		want.Kv.Key, want.PrevKv.Key = []byte("ns/k"), []byte("ns/k")
		require.Empty(t, cmp.Diff(want, got.Events[0], protocmp.Transform()))
		require.Empty(t, cmp.Diff(before, event, protocmp.Transform()))
	}
	require.EqualError(t, w.Close(), "closed")
}

// TestWatchSurvivesKeysFromElsewhere has a Watcher deliver what was not asked for.
func TestWatchSurvivesKeysFromElsewhere(t *testing.T) {
	in := make(chan clientv3.WatchResponse, 1)
	in <- clientv3.WatchResponse{Events: []*clientv3.Event{{Kv: &mvccpb.KeyValue{Key: []byte("n")}}, {}}}
	close(in)
	watch := namespace.NewWatcher(script(in), "ns/").Watch(t.Context(), "k")
	resp := <-watch
	require.Equal(t, "n", string(resp.Events[0].Kv.Key))
	require.Nil(t, resp.Events[1].Kv)
	_, open := <-watch
	require.False(t, open)
}

// TestAbandonedWatch ends the context of a watch without a reader.
func TestAbandonedWatch(t *testing.T) {
	for name, responses := range map[string]int{"idle": 0, "full": 5} {
		t.Run(name, func(t *testing.T) {
			leaks := goleak.IgnoreCurrent()
			in := make(chan clientv3.WatchResponse, responses) // never closed
			for range responses {
				in <- clientv3.WatchResponse{}
			}
			ctx, cancel := context.WithCancel(t.Context())
			watch := namespace.NewWatcher(script(in), "ns/").Watch(ctx, "k")
			cancel()
			goleak.VerifyNone(t, leaks)
			for range watch { // closed, behind what was delivered
			}
		})
	}
}

func TestWatchOfAnEndedContext(t *testing.T) {
	_, c := clienttest.StartClient(t, 1)
	ctx := clienttest.Ended(t)
	select {
	case _, open := <-namespace.NewWatcher(c, "ns/").Watch(ctx, "k"):
		require.False(t, open)
	default:
		t.Fatal("the channel is not closed yet")
	}
}

func TestWatcherClose(t *testing.T) {
	_, c := clienttest.StartClient(t, 1)
	leaks := goleak.IgnoreCurrent()
	silent := make(chan clientv3.WatchResponse, 9) // a Watcher whose Close does not end its watches
	for range cap(silent) {
		silent <- clientv3.WatchResponse{}
	}
	w := namespace.NewWatcher(script(silent), "ns/")
	unread := w.Watch(t.Context(), "k")
	for range 2 {
		require.EqualError(t, w.Close(), "closed")
	}
	goleak.VerifyNone(t, leaks)
	for range unread {
	}

	c.Watcher = namespace.NewWatcher(c.Watcher, "ns/")
	watch := c.Watch(t.Context(), "k")
	require.NoError(t, c.Watcher.Close())
	_, open := <-watch
	require.False(t, open)
	select {
	case _, open := <-c.Watch(t.Context(), "k"):
		require.False(t, open)
	default:
		t.Fatal("a closed watcher returns a closed channel")
	}
}

// TestWatchDuringClose is for the race detector.
func TestWatchDuringClose(t *testing.T) {
	for range 50 {
		const watches = 4
		in := make([]clientv3.WatchChan, watches)
		for i := range in {
			in[i] = make(chan clientv3.WatchResponse)
		}
		w := namespace.NewWatcher(script(in...), "ns/")
		done := make(chan struct{})
		for range watches {
			go func() {
				for range w.Watch(t.Context(), "k") {
				}
				done <- struct{}{}
			}()
		}
		_ = w.Close()
		for range watches {
			<-done
		}
	}
}

func TestWatchTellsWhyItEnds(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	for range 4 {
		clienttest.Put(t, cluster, "ns/k", "v")
	}
	require.NoError(t, cluster.Compact(3))
	watch := namespace.NewWatcher(c, "ns/").Watch(t.Context(), "k", clientv3.WithRev(2))
	resp := <-watch
	require.Equal(t, rpctypes.ErrCompacted, resp.Err())
	require.True(t, resp.Canceled)
	require.EqualValues(t, 3, resp.CompactRevision)
	_, open := <-watch
	require.False(t, open)
}
