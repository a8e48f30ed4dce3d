package fakeetcd

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// watching is a watch stream in a test.
type watching struct {
	t *testing.T
	pb.Watch_WatchClient
}

func openWatch(t *testing.T, m *Member, md ...string) watching {
	t.Helper()
	stream, err := pb.NewWatchClient(dial(t, m)).Watch(outgoing(within(t), md...))
	require.NoError(t, err)
	return watching{t, stream}
}

func (w watching) create(r *pb.WatchCreateRequest) {
	w.t.Helper()
	require.NoError(w.t, w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}))
}

func (w watching) cancel(id int64) {
	w.t.Helper()
	r := &pb.WatchCancelRequest{WatchId: id}
	require.NoError(w.t, w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: r}}))
}

func (w watching) askProgress() {
	w.t.Helper()
	r := &pb.WatchProgressRequest{}
	require.NoError(w.t, w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: r}}))
}

// expect checks the next response, without its member.
func (w watching) expect(want *pb.WatchResponse) {
	w.t.Helper()
	got, err := w.Recv()
	require.NoError(w.t, err)
	assert.Empty(w.t, cmp.Diff(want, got, protocmp.Transform(),
		protocmp.IgnoreFields(&pb.ResponseHeader{}, "cluster_id", "member_id", "raft_term")))
}

func at(rev int64) *pb.ResponseHeader { return &pb.ResponseHeader{Revision: rev} }

func putEvent(key, value string, create, mod, version int64) *mvccpb.Event {
	return &mvccpb.Event{Kv: &mvccpb.KeyValue{
		Key: []byte(key), Value: []byte(value), CreateRevision: create, ModRevision: mod, Version: version,
	}}
}

func TestWatch(t *testing.T) {
	cluster, kv := startKV(t)
	mustPut(t, cluster, "k", "1")
	w := openWatch(t, cluster.Member(0))

	w.create(&pb.WatchCreateRequest{Key: []byte("k")})
	w.expect(&pb.WatchResponse{Header: at(2), WatchId: 0, Created: true})
	mustPut(t, cluster, "other", "")
	mustPut(t, cluster, "k", "2")
	w.expect(&pb.WatchResponse{Header: at(4), Events: []*mvccpb.Event{putEvent("k", "2", 2, 4, 2)}})

	w.create(&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 2, WatchId: 7, PrevKv: true})
	w.expect(&pb.WatchResponse{Header: at(4), WatchId: 7, Created: true})
	second := putEvent("k", "2", 2, 4, 2)
	second.PrevKv = putEvent("k", "1", 2, 2, 1).Kv
	w.expect(&pb.WatchResponse{Header: at(4), WatchId: 7, Events: []*mvccpb.Event{putEvent("k", "1", 2, 2, 1), second}})

	w.cancel(7)
	w.expect(&pb.WatchResponse{Header: at(4), WatchId: 7, Canceled: true})
	w.cancel(7)
	_, err := kv.DeleteRange(within(t), &pb.DeleteRangeRequest{Key: []byte("k")})
	require.NoError(t, err)
	w.expect(&pb.WatchResponse{Header: at(5), Events: []*mvccpb.Event{
		{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte("k"), ModRevision: 5}},
	}})

	// Events continue after CloseSend.
	require.NoError(t, w.CloseSend())
	mustPut(t, cluster, "k", "3")
	w.expect(&pb.WatchResponse{Header: at(6), Events: []*mvccpb.Event{putEvent("k", "3", 6, 6, 1)}})
	require.Len(t, cluster.Calls("Watch"), 1)
	// The second cancel is not answered.
	assert.Eventually(t, func() bool { return len(cluster.Calls("Watch")[0].Requests) == 4 }, 20*time.Second, time.Millisecond)
}

func TestWatchFilters(t *testing.T) {
	cluster, kv := startKV(t)
	w := openWatch(t, cluster.Member(0))
	w.create(&pb.WatchCreateRequest{
		RangeEnd: []byte{0}, Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT},
	})
	w.create(&pb.WatchCreateRequest{
		RangeEnd: []byte{0}, Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE},
	})
	w.expect(&pb.WatchResponse{Header: at(1), WatchId: 0, Created: true})
	w.expect(&pb.WatchResponse{Header: at(1), WatchId: 1, Created: true})
	mustPut(t, cluster, "k", "1")
	w.expect(&pb.WatchResponse{Header: at(2), WatchId: 1, Events: []*mvccpb.Event{putEvent("k", "1", 2, 2, 1)}})
	_, err := kv.DeleteRange(within(t), &pb.DeleteRangeRequest{Key: []byte("k")})
	require.NoError(t, err)
	w.expect(&pb.WatchResponse{Header: at(3), WatchId: 0, Events: []*mvccpb.Event{
		{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte("k"), ModRevision: 3}},
	}})
}

func TestWatchProgress(t *testing.T) {
	cluster := start(t, 1)
	w := openWatch(t, cluster.Member(0))
	w.askProgress() // without a watcher: not answered
	w.create(&pb.WatchCreateRequest{Key: []byte("k")})
	w.expect(&pb.WatchResponse{Header: at(1), Created: true})
	mustPut(t, cluster, "other", "")
	w.askProgress()
	w.expect(&pb.WatchResponse{Header: at(2), WatchId: noWatcher})

	w.create(&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 9})
	w.expect(&pb.WatchResponse{Header: at(2), WatchId: 1, Created: true})
	w.askProgress() // while a watcher starts in the future: not answered
	w.cancel(1)
	w.expect(&pb.WatchResponse{Header: at(2), WatchId: 1, Canceled: true})
}

func TestWatchRefused(t *testing.T) {
	cluster := start(t, 1)
	w := openWatch(t, cluster.Member(0))
	w.create(&pb.WatchCreateRequest{Key: []byte("k"), WatchId: 3})
	w.expect(&pb.WatchResponse{Header: at(1), WatchId: 3, Created: true})
	for _, tt := range []struct {
		req    *pb.WatchCreateRequest
		reason string
	}{
		{&pb.WatchCreateRequest{Key: []byte("k"), WatchId: 3}, "mvcc: duplicate watch ID provided on the WatchStream"},
		{&pb.WatchCreateRequest{Key: []byte("k"), RangeEnd: []byte("a")}, "mvcc: watcher range is empty"},
		{&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: -1}, rpctypes.ErrCompacted.Error()},
	} {
		w.create(tt.req)
		w.expect(&pb.WatchResponse{
			Header: at(1), WatchId: noWatcher, Created: true, Canceled: true, CancelReason: tt.reason,
		})
	}
}

// OnSend drops one response, sends one twice, and breaks the connection at the next.
func TestOnSend(t *testing.T) {
	cluster := start(t, 1)
	cluster.Once("Watch", func(c *Call) {
		n := 0
		c.OnSend(func(resp proto.Message) bool {
			n++
			switch n {
			case 2:
				return false
			case 3:
				assert.NoError(t, c.Send(resp))
			case 4:
				c.BreakConn()
			}
			return true
		})
	})
	w := openWatch(t, cluster.Member(0))
	w.create(&pb.WatchCreateRequest{Key: []byte("k")})
	w.expect(&pb.WatchResponse{Header: at(1), Created: true})
	mustPut(t, cluster, "k", "lost")
	w.askProgress()
	twice := &pb.WatchResponse{Header: at(2), WatchId: noWatcher}
	w.expect(twice)
	w.expect(twice)
	mustPut(t, cluster, "k", "breaks")
	_, err := w.Recv()
	assert.Equal(t, codes.Unavailable, status.Code(err))
}

// TestScriptedStream serves a watch from a hook.
func TestScriptedStream(t *testing.T) {
	cluster := start(t, 1)
	cluster.Once("Watch", func(c *Call) {
		assert.Nil(t, c.Request)
		req, err := c.Recv()
		assert.NoError(t, err)
		assert.Equal(t, "k", string(req.(*pb.WatchRequest).GetCreateRequest().GetKey()))
		assert.NoError(t, c.Send(&pb.WatchResponse{Header: at(5), WatchId: 9, Created: true}))
		c.Answer(nil, rpctypes.ErrGRPCNoLeader)
	})
	w := openWatch(t, cluster.Member(0))
	w.create(&pb.WatchCreateRequest{Key: []byte("k")})
	w.expect(&pb.WatchResponse{Header: at(5), WatchId: 9, Created: true})
	_, err := w.Recv()
	wantError(t, rpctypes.ErrGRPCNoLeader, err)
	require.Len(t, cluster.Calls("Watch"), 1)
	assert.False(t, cluster.Calls("Watch")[0].Executed)
}
