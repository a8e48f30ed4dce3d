package clientv3_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// watchTimeout is far longer than any wait of a watch test.
const watchTimeout = time.Minute

// scriptedStream is a watch stream that the test serves.
type scriptedStream struct {
	*fakeetcd.Call
	t    *testing.T
	done chan struct{}
}

// scriptWatches makes the test serve the next n watch streams. The store serves the later ones, so
// a watch must deliver all events whatever the script did.
func scriptWatches(t *testing.T, cluster *fakeetcd.Cluster, n int) <-chan *scriptedStream {
	streams := make(chan *scriptedStream, n)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	for range n {
		cluster.Once("Watch", func(call *fakeetcd.Call) {
			s := &scriptedStream{call, t, make(chan struct{})}
			streams <- s
			select {
			case <-s.done:
			case <-over:
			}
		})
	}
	return streams
}

// await returns the next value of a channel.
func await[T any](t *testing.T, c <-chan T, otherwise string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(watchTimeout):
		require.Fail(t, otherwise)
	}
	return v
}

// take returns the next stream of the client.
func take(t *testing.T, streams <-chan *scriptedStream) *scriptedStream {
	t.Helper()
	return await(t, streams, "the client opens no stream")
}

// request returns the client's next request.
func (s *scriptedStream) request() *pb.WatchRequest {
	s.t.Helper()
	late := time.AfterFunc(watchTimeout, s.BreakConn)
	defer late.Stop()
	req, err := s.Recv()
	require.NoError(s.t, err, "the client sends no request")
	return req.(*pb.WatchRequest)
}

// createRequest returns the next request, which creates a watch. The client may request progress by itself.
func (s *scriptedStream) createRequest() *pb.WatchCreateRequest {
	s.t.Helper()
	req := s.request()
	for req.GetProgressRequest() != nil {
		req = s.request()
	}
	require.NotNil(s.t, req.GetCreateRequest(), "the request is to create a watch")
	return req.GetCreateRequest()
}

// accept confirms the next watch, and returns its request.
func (s *scriptedStream) accept(h *pb.ResponseHeader) *pb.WatchCreateRequest {
	s.t.Helper()
	req := s.createRequest()
	_ = s.Send(&pb.WatchResponse{Header: h, WatchId: req.WatchId, Created: true})
	return req
}

// put sends a put of "k" to a watch, at the revision of the header.
func (s *scriptedStream) put(id int64, h *pb.ResponseHeader) {
	kv := &mvccpb.KeyValue{Key: []byte("k"), ModRevision: h.Revision}
	_ = s.Send(&pb.WatchResponse{Header: h, WatchId: id, Events: []*Event{{Kv: kv}}})
}

// fail ends the stream with an error.
func (s *scriptedStream) fail(err error) {
	s.Answer(nil, err)
	close(s.done)
}

// startWatch calls Watch, which returns when the watch is created.
func startWatch(ctx context.Context, w Watcher, key string, opts ...OpOption) <-chan WatchChan {
	started := make(chan WatchChan, 1)
	go func() { started <- w.Watch(ctx, key, opts...) }()
	return started
}

func started(t *testing.T, ch <-chan WatchChan) WatchChan {
	t.Helper()
	return await(t, ch, "Watch does not return")
}

// next returns the next response of a watch, and whether there is one.
func next(t *testing.T, w WatchChan) (resp WatchResponse, ok bool) {
	t.Helper()
	select {
	case resp, ok = <-w:
		return resp, ok
	case <-time.After(watchTimeout):
		require.Fail(t, "the watch delivers nothing")
		return WatchResponse{}, false
	}
}

// describe returns a response in a comparable form.
func describe(resp *WatchResponse) string {
	switch {
	case resp.Err() != nil:
		return fmt.Sprint("error ", resp.Err())
	case resp.Created:
		return "created"
	case resp.IsProgressNotify():
		return fmt.Sprint("progress ", resp.Header.Revision)
	default:
		return fmt.Sprint("events ", len(resp.Events))
	}
}

// readTo reads the events of a watch up to a revision, and checks that they ascend, that no
// revision is split, and that no response is an error. It returns the revisions and the responses
// without events.
func readTo(t *testing.T, w WatchChan, last int64) (revs []int64, others []string) {
	t.Helper()
	var reached int64
	for reached < last {
		resp, ok := next(t, w)
		require.True(t, ok, "the watch ended after revision %d", reached)
		require.NotNil(t, resp.Header)
		if len(resp.Events) == 0 {
			others = append(others, describe(&resp))
			require.NoError(t, resp.Err())
			continue
		}
		resp.Header.Revision = 0 // it is the caller's
		require.Greater(t, resp.Events[0].Kv.ModRevision, reached, "a revision is repeated or split")
		for _, e := range resp.Events {
			if e.Kv.ModRevision < reached {
				require.Fail(t, "revisions do not ascend", "%d after %d", e.Kv.ModRevision, reached)
			}
			reached = e.Kv.ModRevision
			revs = append(revs, reached)
		}
	}
	return revs, others
}

// requireRevs reads a watch, and fails unless it delivers exactly the revisions from one to
// another, once each, and nothing else.
func requireRevs(t *testing.T, w WatchChan, first, last int64) {
	t.Helper()
	revs, others := readTo(t, w, last)
	require.Equal(t, sequence(first, last), revs)
	require.Empty(t, others)
}

func sequence(first, last int64) []int64 {
	var revs []int64
	for rev := first; rev <= last; rev++ {
		revs = append(revs, rev)
	}
	return revs
}

// requireEnd fails unless the next response of a watch is an error, and the last.
func requireEnd(t *testing.T, w WatchChan, want error) {
	t.Helper()
	resp, ok := next(t, w)
	require.True(t, ok, "a watch that fails has an error")
	require.Equal(t, want, resp.Err())
	require.True(t, resp.Canceled)
	require.Empty(t, resp.Events)
	requireClosed(t, w)
}

func requireClosed(t *testing.T, w WatchChan) {
	t.Helper()
	resp, ok := next(t, w)
	require.False(t, ok, "the channel is closed: %s", describe(&resp))
}

// put writes a key n times, and returns the revision of the last.
func put(t *testing.T, cluster *fakeetcd.Cluster, key string, n int) (rev int64) {
	t.Helper()
	for i := range n {
		rev = clienttest.Put(t, cluster, key, fmt.Sprint(i))
	}
	return rev
}
