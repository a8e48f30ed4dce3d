package clientv3_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

// oddResponses are responses of old servers, proxies and races to a watch from revision 5 on,
// while the store is at revision 9.
var oddResponses = map[string]func(s *scriptedStream, id int64){
	"created twice": func(s *scriptedStream, id int64) {
		s.created(id, 9)
		s.created(id, 9)
		s.events(id, "k", 5, 6)
	},
	"created again later": func(s *scriptedStream, id int64) {
		s.created(id, 9)
		s.events(id, "k", 5, 6)
		s.created(id, 9)
	},
	"events twice": func(s *scriptedStream, id int64) {
		s.created(id, 9)
		s.events(id, "k", 5, 6)
		s.events(id, "k", 5, 6)
		s.events(id, "k", 7)
	},
	"older events again": func(s *scriptedStream, id int64) {
		s.created(id, 9)
		s.events(id, "k", 5, 6, 7)
		s.events(id, "k", 5, 6)
		s.events(id, "k", 6, 7, 8)
	},
	"events from before the start": func(s *scriptedStream, id int64) {
		s.created(id, 9)
		s.events(id, "k", 2, 3)
		s.events(id, "k", 4, 5)
	},
	"events before created": func(s *scriptedStream, id int64) {
		s.events(id, "k", 5)
		s.created(id, 9)
		s.events(id, "k", 6)
	},
	"events of an unknown id": func(s *scriptedStream, id int64) {
		s.events(id+1000, "k", 8, 9)
		s.created(id, 9)
		s.events(id+1000, "k", 8, 9)
		s.events(id, "k", 5)
	},
	"end of an unknown id": func(s *scriptedStream, id int64) {
		s.created(id, 9)
		s.canceled(id+1000, 9)
		s.compacted(id+1001, 9)
		s.events(id, "k", 5)
	},
	"a header that is ahead of its events": func(s *scriptedStream, id int64) {
		s.created(id, 9)
		resp := &pb.WatchResponse{Header: header(9), WatchId: id, Events: []*Event{{Kv: newKV("k", 5)}}}
		s.respond(resp)
	},
	"a fragment without its rest": func(s *scriptedStream, id int64) {
		s.created(id, 9)
		s.respond(&pb.WatchResponse{
			Header: header(9), WatchId: id, Fragment: true, Events: []*Event{{Kv: newKV("k", 5)}, {Kv: newKV("k", 6)}},
		})
	},
	"progress for all before created": func(s *scriptedStream, id int64) {
		s.progress(9)
		s.created(id, 9)
	},
	"progress for all that was not requested": func(s *scriptedStream, id int64) {
		s.created(id, 9)
		s.progress(9)
	},
	"progress for all that is older than the watch": func(s *scriptedStream, id int64) {
		s.created(id, 9)
		s.progress(8)
		s.progress(4)
	},
	"progress below the start": func(s *scriptedStream, id int64) {
		s.created(id, 9)
		s.respond(&pb.WatchResponse{Header: header(3), WatchId: id})
		s.events(id, "k", 5)
	},
	"progress that goes back": func(s *scriptedStream, id int64) {
		s.created(id, 9)
		s.events(id, "k", 5, 6, 7)
		s.respond(&pb.WatchResponse{Header: header(5), WatchId: id})
	},
	"an empty response": func(s *scriptedStream, id int64) {
		s.created(id, 9)
		s.respond(&pb.WatchResponse{Header: &pb.ResponseHeader{}, WatchId: id})
		s.events(id, "k", 5)
	},
	"no header": func(s *scriptedStream, id int64) {
		_ = s.Send(&pb.WatchResponse{WatchId: id, Created: true})
		_ = s.Send(&pb.WatchResponse{WatchId: id, Events: []*Event{{Kv: newKV("k", 5)}}})
	},
	"another id": func(s *scriptedStream, id int64) {
		s.created(id+1, 9)
		s.events(id+1, "k", 5)
	},
}

// TestWatchOddResponses scripts the first stream of a watch; the next ones are served from the
// store: the delivered events show how a response moved the resume point.
func TestWatchOddResponses(t *testing.T) {
	for name, script := range oddResponses {
		t.Run(name, func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 3)
			put(t, cluster, "k", 8)
			streams := scriptWatches(t, cluster, 1)
			starting := startWatch(clienttest.Within(t), c, "k", WithRev(5))
			s := take(t, streams)
			script(s, s.createRequest().WatchId)
			s.end()
			w := started(t, starting)
			last := put(t, cluster, "k", 3)
			revs, others := readTo(t, w, last)
			require.Equal(t, sequence(5, last), revs)
			for _, other := range others {
				require.Equal(t, "progress 5", other, "it was true when it was sent, and arrived late")
			}
		})
	}
}

// twoWatches has two watches on one scripted stream: their keys are "a" and "b", and they start at
// revision 1.
type twoWatches struct {
	*scriptedStream
	a, b     WatchChan
	idA, idB int64
	cancelA  context.CancelFunc
}

func startTwo(t *testing.T, c *Client, streams <-chan *scriptedStream) twoWatches {
	t.Helper()
	ctx, cancel := context.WithCancel(clienttest.Within(t))
	t.Cleanup(cancel)
	startA := startWatch(ctx, c, "a")
	s := take(t, streams)
	idA := s.createRequest().WatchId
	s.created(idA, 1)
	a := started(t, startA)
	startB := startWatch(clienttest.Within(t), c, "b")
	idB := s.createRequest().WatchId
	s.created(idB, 1)
	b := started(t, startB)
	require.NotEqual(t, idA, idB)
	return twoWatches{s, a, b, idA, idB, cancel}
}

// TestWatchLateResponses sends to a watch that was canceled long before. No other watch receives
// it.
func TestWatchLateResponses(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	two := startTwo(t, c, scriptWatches(t, cluster, 1))
	two.cancelA()
	requireClosed(t, two.a)
	require.Equal(t, two.idA, two.cancelRequest())
	two.events(two.idA, "a", 2)

	startC := startWatch(clienttest.Within(t), c, "c")
	idC := two.createRequest().WatchId
	require.NotContains(t, []int64{two.idA, two.idB}, idC, "an id is never used twice")
	two.events(two.idA, "a", 3)
	two.created(idC, 3)
	w := started(t, startC)
	two.events(two.idA, "a", 4)
	two.canceled(two.idA, 4)
	two.compacted(two.idA, 4)
	two.events(two.idA, "a", 5)
	two.events(idC, "c", 6)
	two.events(two.idB, "b", 7)

	revs, others := readTo(t, w, 6)
	require.Equal(t, []int64{6}, revs)
	require.Empty(t, others)
	revs, others = readTo(t, two.b, 7)
	require.Equal(t, []int64{7}, revs)
	require.Empty(t, others)
}

// TestWatchCreatedSwapped answers two concurrent creates in reverse order. Each watch receives its
// own events, on this stream or on the next.
func TestWatchCreatedSwapped(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	streams := scriptWatches(t, cluster, 1)
	two := startTwo(t, c, streams)
	startC, startD := startWatch(clienttest.Within(t), c, "c"), startWatch(clienttest.Within(t), c, "d")
	first, second := two.createRequest(), two.createRequest()
	two.created(second.WatchId, 1)
	two.created(first.WatchId, 1)
	two.events(first.WatchId, string(first.Key), put(t, cluster, string(first.Key), 1))
	two.events(second.WatchId, string(second.Key), put(t, cluster, string(second.Key), 1))
	two.end()
	for key, starting := range map[string]<-chan WatchChan{"c": startC, "d": startD} {
		w := started(t, starting)
		last := put(t, cluster, key, 1)
		for reached := int64(0); reached < last; {
			resp, ok := next(t, w)
			require.True(t, ok)
			for _, e := range resp.Events {
				require.Equal(t, key, string(e.Kv.Key))
				require.Greater(t, e.Kv.ModRevision, reached)
				reached = e.Kv.ModRevision
			}
		}
	}
}

// TestWatchDoubleCancel cancels a watch from both sides.
func TestWatchDoubleCancel(t *testing.T) {
	tests := map[string]func(t *testing.T, two twoWatches){
		"the client, then the server twice": func(t *testing.T, two twoWatches) {
			two.cancelA()
			require.Equal(t, two.idA, two.cancelRequest())
			two.compacted(two.idA, 5)
			two.canceled(two.idA, 5)
			two.canceled(two.idA, 5)
			requireClosed(t, two.a)
		},
		"the server twice": func(t *testing.T, two twoWatches) {
			two.compacted(two.idA, 5)
			two.compacted(two.idA, 6)
			require.EqualValues(t, 5, requireEnd(t, two.a, rpctypes.ErrCompacted).CompactRevision)
		},
		"the server, then the client": func(t *testing.T, two twoWatches) {
			two.compacted(two.idA, 5)
			require.Equal(t, two.idA, two.cancelRequest(), "etcd keeps a compacted watch until it is cancelled")
			two.cancelA()
			two.canceled(two.idA, 5)
			for range two.a { // the reason may have arrived before
			}
		},
		"the server with a reason of its own": func(t *testing.T, two twoWatches) {
			two.respond(&pb.WatchResponse{
				Header: header(1), WatchId: two.idA, Canceled: true, CancelReason: rpctypes.ErrPermissionDenied.Error(),
			})
			require.Equal(t, rpctypes.ErrPermissionDenied.Error(), requireEnd(t, two.a, rpctypes.ErrPermissionDenied).CancelReason)
		},
		"the client twice": func(t *testing.T, two twoWatches) {
			two.cancelA()
			two.cancelA()
			requireClosed(t, two.a)
			require.Equal(t, two.idA, two.cancelRequest())
			two.canceled(two.idA, 5)
		},
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 1)
			two := startTwo(t, c, scriptWatches(t, cluster, 1))
			script(t, two)
			two.progress(6)
			two.events(two.idB, "b", 7)
			revs, _ := readTo(t, two.b, 7)
			require.Equal(t, []int64{7}, revs, "the other watch continues")
			require.Equal(t, 1, cluster.Count("Watch"), "on the same stream")
		})
	}
}
