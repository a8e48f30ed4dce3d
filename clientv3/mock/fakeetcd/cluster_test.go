package fakeetcd

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
)

func TestMemberList(t *testing.T) {
	cluster := start(t, 2)
	members := pb.NewClusterClient(dial(t, cluster.Member(0)))
	list, err := members.MemberList(within(t), &pb.MemberListRequest{Linearizable: true})
	require.NoError(t, err)
	require.Len(t, list.Members, 2)
	assert.Zero(t, list.Header.Revision, "the Cluster service has no revisions")
	for i, m := range list.Members {
		assert.Equal(t, cluster.Member(i).ID(), m.ID)
		assert.Equal(t, cluster.Member(i).Name(), m.Name)
		assert.Equal(t, []string{cluster.Member(i).Endpoint()}, m.ClientURLs)
	}
}

func TestNoLeader(t *testing.T) {
	cluster := start(t, 2)
	conn := dial(t, cluster.Member(0))
	kv := pb.NewKVClient(conn)
	cluster.Once("Watch", func(c *Call) {
		c.OnSend(func(resp proto.Message) bool { return c.Send(resp) != nil })
		_, err := c.Execute()
		wantError(t, rpctypes.ErrGRPCNoLeader, err)
	})
	watch := openWatch(t, cluster.Member(0), "hasleader", "true")
	watch.create(&pb.WatchCreateRequest{Key: []byte("k")})
	watch.expect(&pb.WatchResponse{Header: at(1), Created: true})
	lease := pb.NewLeaseClient(conn)
	keepAlive, err := lease.LeaseKeepAlive(outgoing(within(t), "hasleader", "true"))
	require.NoError(t, err)
	require.NoError(t, cluster.Wait(within(t), "LeaseKeepAlive", 1))

	cluster.SetLeader(nil)
	_, err = watch.Recv()
	wantError(t, rpctypes.ErrGRPCNoLeader, err)
	_, err = keepAlive.Recv()
	wantError(t, rpctypes.ErrGRPCNoLeader, err)
	keepAlive, err = lease.LeaseKeepAlive(within(t))
	require.NoError(t, err)
	require.NoError(t, keepAlive.Send(&pb.LeaseKeepAliveRequest{ID: 1}))
	_, err = keepAlive.Recv()
	wantError(t, rpctypes.ErrGRPCNoLeader, err)
	_, err = lease.LeaseTimeToLive(within(t), &pb.LeaseTimeToLiveRequest{ID: 1})
	wantError(t, rpctypes.ErrGRPCNoLeader, err)
	_, err = kv.Put(within(t), put("k", "v"))
	wantError(t, rpctypes.ErrGRPCTimeout, err)
	_, err = kv.Range(within(t), get("k"))
	wantError(t, rpctypes.ErrGRPCTimeout, err)
	_, err = kv.Put(outgoing(within(t), "hasleader", "true"), put("k", "v"))
	wantError(t, rpctypes.ErrGRPCNoLeader, err)
	_, err = kv.Range(within(t), &pb.RangeRequest{Key: []byte("k"), Serializable: true})
	require.NoError(t, err)
	_, err = kv.Txn(within(t), &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{
		RequestRange: &pb.RangeRequest{Key: []byte("k"), Serializable: true},
	}}}})
	require.NoError(t, err)

	cluster.SetLeader(cluster.Member(1))
	resp, err := kv.Put(outgoing(within(t), "hasleader", "true"), put("k", "v"))
	require.NoError(t, err)
	assert.EqualValues(t, firstTerm+2, resp.Header.RaftTerm)
}
