package clientv3_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// watchPatience is far longer than any wait of a watch test.
const watchPatience = time.Minute

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

// take returns the next stream of the client.
func take(t *testing.T, streams <-chan *scriptedStream) *scriptedStream {
	t.Helper()
	select {
	case s := <-streams:
		return s
	case <-time.After(watchPatience):
		require.Fail(t, "the client opens no stream")
		return nil
	}
}

// request returns the client's next request.
func (s *scriptedStream) request() *pb.WatchRequest {
	s.t.Helper()
	late := time.AfterFunc(watchPatience, s.BreakConn)
	defer late.Stop()
	req, err := s.Recv()
	require.NoError(s.t, err, "the client sends no request")
	return req.(*pb.WatchRequest)
}

// substance is request without requests for progress, which the client may send by itself.
func (s *scriptedStream) substance() *pb.WatchRequest {
	s.t.Helper()
	req := s.request()
	for req.GetProgressRequest() != nil {
		req = s.request()
	}
	return req
}

func (s *scriptedStream) createRequest() *pb.WatchCreateRequest {
	s.t.Helper()
	req := s.substance().GetCreateRequest()
	require.NotNil(s.t, req, "the request is to create a watch")
	return req
}

func (s *scriptedStream) cancelRequest() int64 {
	s.t.Helper()
	req := s.substance().GetCancelRequest()
	require.NotNil(s.t, req, "the request is to cancel a watch")
	return req.WatchId
}

// respond sends a response, unless the client has already left the stream.
func (s *scriptedStream) respond(resp *pb.WatchResponse) {
	if resp.Header == nil {
		resp.Header = &pb.ResponseHeader{ClusterId: fakeetcd.ClusterID, MemberId: s.Member.ID(), RaftTerm: 2}
	}
	_ = s.Send(resp)
}

func (s *scriptedStream) created(id, rev int64) {
	s.respond(&pb.WatchResponse{Header: header(rev), WatchId: id, Created: true})
}

func (s *scriptedStream) refused(reason string) {
	s.respond(&pb.WatchResponse{
		Header: header(1), WatchId: InvalidWatchID, Created: true, Canceled: true, CancelReason: reason,
	})
}

func (s *scriptedStream) canceled(id, rev int64) {
	s.respond(&pb.WatchResponse{Header: header(rev), WatchId: id, Canceled: true})
}

func (s *scriptedStream) compacted(id, rev int64) {
	s.respond(&pb.WatchResponse{WatchId: id, Canceled: true, CompactRevision: rev})
}

func (s *scriptedStream) progress(rev int64) {
	s.respond(&pb.WatchResponse{Header: header(rev), WatchId: InvalidWatchID})
}

// events sends puts of a key, one per revision.
func (s *scriptedStream) events(id int64, key string, revs ...int64) {
	resp := &pb.WatchResponse{Header: header(revs[len(revs)-1]), WatchId: id}
	for _, rev := range revs {
		resp.Events = append(resp.Events, &Event{Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: rev}})
	}
	s.respond(resp)
}

// end resets the stream.
func (s *scriptedStream) end() {
	s.ResetStream(fakeetcd.ResetRefused)
	close(s.done)
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
	select {
	case w := <-ch:
		return w
	case <-time.After(watchPatience):
		require.Fail(t, "Watch does not return")
		return nil
	}
}

// next returns the next response of a watch, and whether there is one.
func next(t *testing.T, w WatchChan) (resp WatchResponse, ok bool) {
	t.Helper()
	select {
	case resp, ok = <-w:
		return resp, ok
	case <-time.After(watchPatience):
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
// revision is split, and that other responses are allowed. It returns the revisions and the other
// responses.
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

// requireEnd fails unless the last response of a watch is an error and no other response is left.
// It returns it.
func requireEnd(t *testing.T, w WatchChan, want error) WatchResponse {
	t.Helper()
	resp, ok := next(t, w)
	require.True(t, ok, "a watch that fails has an error")
	require.Equal(t, want, resp.Err())
	require.True(t, resp.Canceled)
	require.Empty(t, resp.Events)
	requireClosed(t, w)
	return resp
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

// onResponse calls f with the responses of the next watch stream before they are sent.
func onResponse(cluster *fakeetcd.Cluster, f func(call *fakeetcd.Call, resp *pb.WatchResponse) bool) *fakeetcd.Hook {
	return cluster.Once("Watch", func(call *fakeetcd.Call) {
		call.OnSend(func(resp proto.Message) bool { return f(call, resp.(*pb.WatchResponse)) })
	})
}

// breaks are the ways to lose a stream.
var breaks = map[string]func(*fakeetcd.Call){
	"connection broken":  (*fakeetcd.Call).BreakConn,
	"stream reset":       func(c *fakeetcd.Call) { c.ResetStream(fakeetcd.ResetInternal) },
	"stream reset early": func(c *fakeetcd.Call) { c.ResetStream(fakeetcd.ResetRefused) },
	"stream cancelled":   func(c *fakeetcd.Call) { c.ResetStream(fakeetcd.ResetCancel) },
	"server overloaded":  func(c *fakeetcd.Call) { c.ResetStream(fakeetcd.ResetEnhanceYourCalm) },
}

// sendThen sends a response, and then breaks the stream.
func sendThen(t *testing.T, call *fakeetcd.Call, resp *pb.WatchResponse, lose func(*fakeetcd.Call)) bool {
	assert.NoError(t, call.Send(resp))
	lose(call)
	return false
}
