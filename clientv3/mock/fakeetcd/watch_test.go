package fakeetcd

import (
	"testing"

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

// What a watch receives is compared with etcd in lab/behaviours. Here the client half-closes the stream, and events continue.
func TestWatchAfterCloseSend(t *testing.T) {
	cluster := start(t, 1)
	w := openWatch(t, cluster.Member(0))
	w.create(&pb.WatchCreateRequest{Key: []byte("k")})
	w.expect(&pb.WatchResponse{Header: at(1), Created: true})
	require.NoError(t, w.CloseSend())
	for rev := range int64(2) {
		mustPut(t, cluster, "k", "v")
		w.expect(&pb.WatchResponse{Header: at(2 + rev), Events: []*mvccpb.Event{putEvent("k", "v", 2, 2+rev, 1+rev)}})
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
