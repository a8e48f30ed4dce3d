package clientv3_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

// mockStream is a stream as in unit tests of programs: Recv reads a channel and ignores its
// context.
type mockStream[Req, Resp any] struct {
	grpc.ClientStream
	requests  chan *Req
	responses chan *Resp
	over      chan struct{} // ends Recv after the test
}

func newMockStream[Req, Resp any](t *testing.T) *mockStream[Req, Resp] {
	t.Helper()
	s := &mockStream[Req, Resp]{requests: make(chan *Req, 100), responses: make(chan *Resp, 100), over: make(chan struct{})}
	t.Cleanup(func() { close(s.over) })
	return s
}

func (s *mockStream[Req, Resp]) Send(r *Req) error { s.requests <- r; return nil }
func (s *mockStream[Req, Resp]) CloseSend() error  { return nil }

func (s *mockStream[Req, Resp]) Recv() (*Resp, error) {
	select {
	case resp := <-s.responses:
		return resp, nil
	case <-s.over:
		return nil, errors.New("the test is over")
	}
}

// mockWatch is a WatchClient of functions.
type mockWatch func(ctx context.Context, opts ...grpc.CallOption) (pb.Watch_WatchClient, error)

func (m mockWatch) Watch(ctx context.Context, opts ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	return m(ctx, opts...)
}

// onlyRequest returns the next request, and fails if there is another one after it.
func onlyRequest[Req, Resp any](t *testing.T, s *mockStream[Req, Resp]) *Req {
	t.Helper()
	synctest.Wait()
	require.Len(t, s.requests, 1)
	return <-s.requests
}

// TestWatchOverAMock: a mock receives the same requests as from the official client, and Close
// does not wait for its Recv.
func TestWatchOverAMock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMockStream[pb.WatchRequest, pb.WatchResponse](t)
		streams := 0
		w := NewWatchFromWatchClient(mockWatch(func(ctx context.Context, opts ...grpc.CallOption) (pb.Watch_WatchClient, error) {
			streams++
			assert.Empty(t, opts)
			md, _ := metadata.FromOutgoingContext(ctx)
			assert.Empty(t, md)
			return s, nil
		}), nil)
		chans := make(chan WatchChan, 2)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { chans <- w.Watch(ctx, "k1", WithRev(5), WithFilterPut(), WithFilterDelete()) }()
		filters := []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT, pb.WatchCreateRequest_NODELETE}
		assert.Equal(t, &pb.WatchCreateRequest{Key: []byte("k1"), StartRevision: 5, Filters: filters}, onlyRequest(t, s).GetCreateRequest())
		go func() { chans <- w.Watch(t.Context(), "k2") }()
		synctest.Wait()
		require.Empty(t, s.requests, "one create at a time")
		time.Sleep(time.Minute) // a mock may be slow
		s.responses <- &pb.WatchResponse{WatchId: 0, Created: true, Header: header(4)}
		first := <-chans
		assert.Equal(t, &pb.WatchCreateRequest{Key: []byte("k2")}, onlyRequest(t, s).GetCreateRequest())
		s.responses <- &pb.WatchResponse{WatchId: 1, Created: true, Header: header(4)}
		second := <-chans

		event := &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k1"), ModRevision: 7}}
		s.responses <- &pb.WatchResponse{WatchId: 0, Header: header(7), Events: []*mvccpb.Event{event}}
		resp := <-first
		assert.Equal(t, []*Event{event}, resp.Events)
		time.Sleep(time.Hour)
		require.Empty(t, s.requests, "only what callers requested")
		require.NoError(t, w.RequestProgress(t.Context()))
		require.NotNil(t, onlyRequest(t, s).GetProgressRequest())
		s.responses <- &pb.WatchResponse{WatchId: -1, Header: header(8)}
		progress := <-second
		assert.True(t, progress.IsProgressNotify())
		cancel()
		assert.Equal(t, &pb.WatchCancelRequest{WatchId: 0}, onlyRequest(t, s).GetCancelRequest())
		require.NoError(t, w.Close())
		_, open := <-second
		assert.False(t, open)
		assert.Equal(t, 1, streams)
	})
}

// Events of a mock, which is asked for them once, may lack what etcd sets.
func TestEventsOfAMock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMockStream[pb.WatchRequest, pb.WatchResponse](t)
		w := NewWatchFromWatchClient(mockWatch(func(context.Context, ...grpc.CallOption) (pb.Watch_WatchClient, error) { return s, nil }), nil)
		s.responses <- &pb.WatchResponse{Created: true, Header: header(4)}
		ch := w.Watch(t.Context(), "k", WithPrevKV())
		onlyRequest(t, s)
		for _, rev := range []int64{7, 0, 0} {
			event := &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte("k"), ModRevision: rev}}
			s.responses <- &pb.WatchResponse{Events: []*mvccpb.Event{event}}
			synctest.Wait()
			require.Len(t, ch, 1, "an event of revision %d", rev)
			assert.Equal(t, []*Event{event}, (<-ch).Events)
		}
		require.Empty(t, s.requests)
		require.NoError(t, w.Close())
	})
}

// scriptedRecv answers with a function.
type scriptedRecv struct {
	grpc.ClientStream
	recv func() (*pb.WatchResponse, error)
}

func (scriptedRecv) Send(*pb.WatchRequest) error        { return nil }
func (scriptedRecv) CloseSend() error                   { return nil }
func (s scriptedRecv) Recv() (*pb.WatchResponse, error) { return s.recv() }

// TestMockWithEndlessAnswers: the watcher does not spin on endless errors, responses or missing streams.
func TestMockWithEndlessAnswers(t *testing.T) {
	for name, recv := range map[string]func() (*pb.WatchResponse, error){
		"an error":          func() (*pb.WatchResponse, error) { return nil, status.Error(codes.Unavailable, "away") },
		"nothing":           func() (*pb.WatchResponse, error) { return nil, nil },
		"the same creation": func() (*pb.WatchResponse, error) { return &pb.WatchResponse{Created: true, Header: header(1)}, nil },
		"no stream":         nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var answers, streams atomic.Int64
				w := NewWatchFromWatchClient(mockWatch(func(context.Context, ...grpc.CallOption) (pb.Watch_WatchClient, error) {
					streams.Add(1)
					if recv == nil {
						return nil, nil
					}
					return scriptedRecv{recv: func() (*pb.WatchResponse, error) {
						answers.Add(1)
						return recv()
					}}, nil
				}), nil)
				go w.Watch(t.Context(), "k")
				time.Sleep(time.Minute)
				assert.Less(t, streams.Load(), int64(300), "streams a minute")
				assert.LessOrEqual(t, answers.Load(), 4*streams.Load())
				require.NoError(t, w.Close())
			})
		})
	}
}

// TestWatchEndsWithAnErrorOfAMock: the official client opens a stream again only after Unavailable and Internal.
func TestWatchEndsWithAnErrorOfAMock(t *testing.T) {
	boom := errors.New("boom")
	w := NewWatchFromWatchClient(mockWatch(func(context.Context, ...grpc.CallOption) (pb.Watch_WatchClient, error) {
		return scriptedRecv{recv: func() (*pb.WatchResponse, error) { return nil, boom }}, nil
	}), nil)
	defer w.Close()
	ch := w.Watch(clienttest.Within(t), "k")
	resp := <-ch
	assert.True(t, resp.Canceled)
	assert.ErrorContains(t, resp.Err(), "boom")
	_, open := <-ch
	assert.False(t, open)
}

// mockLease is a LeaseClient with one keepalive stream.
type mockLease struct {
	pb.LeaseClient
	t      *testing.T
	grants []*pb.LeaseGrantRequest
	stream *mockStream[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse]
	err    error
	opened int
}

func (m *mockLease) LeaseGrant(_ context.Context, r *pb.LeaseGrantRequest, _ ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	m.grants = append(m.grants, r)
	return &pb.LeaseGrantResponse{ID: 42, TTL: r.TTL}, m.err
}

func (m *mockLease) LeaseKeepAlive(_ context.Context, opts ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	assert.Empty(m.t, opts)
	m.opened++
	return m.stream, m.err
}

// TestLeaseOverAMock: the server chooses the id, each KeepAliveOnce has a stream, and Close does not wait for a Recv.
func TestLeaseOverAMock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mockLease{t: t, stream: newMockStream[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse](t)}
		l := NewLeaseFromLeaseClient(m, nil, 0)
		granted, err := l.Grant(t.Context(), 30)
		require.NoError(t, err)
		assert.Equal(t, LeaseID(42), granted.ID)
		assert.Equal(t, []*pb.LeaseGrantRequest{{TTL: 30}}, m.grants)

		for ttl := int64(30); ttl > 28; ttl-- {
			m.stream.responses <- &pb.LeaseKeepAliveResponse{TTL: ttl}
			resp, err := l.KeepAliveOnce(t.Context(), 42)
			require.NoError(t, err)
			assert.Equal(t, ttl, resp.TTL)
			assert.Equal(t, &pb.LeaseKeepAliveRequest{ID: 42}, onlyRequest(t, m.stream))
		}
		assert.Equal(t, 2, m.opened)

		m.err = errors.New("boom")
		_, err = l.KeepAliveOnce(t.Context(), 42)
		assert.ErrorContains(t, err, "boom")
		assert.Equal(t, 3, m.opened, "no repetition")
		_, err = l.Grant(t.Context(), 30)
		assert.ErrorContains(t, err, "boom")
		assert.Len(t, m.grants, 2, "no repetition")
		m.err = rpctypes.ErrLeaseExist
		_, err = l.Grant(t.Context(), 30)
		assert.ErrorIs(t, err, rpctypes.ErrLeaseExist, "no other lease is looked for")

		m.err = nil
		_, err = l.KeepAlive(t.Context(), 42)
		require.NoError(t, err)
		assert.Equal(t, &pb.LeaseKeepAliveRequest{ID: 42}, onlyRequest(t, m.stream))
		require.NoError(t, l.Close())
	})
}
