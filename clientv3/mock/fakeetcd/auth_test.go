package fakeetcd

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// startAuth runs a cluster with authentication enabled and two users: root, and alice, whose role "a" may read and write
// the key "a". Each password is the user's name.
func startAuth(t *testing.T) (*Cluster, *grpc.ClientConn) {
	t.Helper()
	cluster := start(t, 1)
	conn := dial(t, cluster.Member(0))
	auth := pb.NewAuthClient(conn)
	var errs []error
	do := func(_ any, err error) { errs = append(errs, err) }
	do(auth.UserAdd(within(t), &pb.AuthUserAddRequest{Name: "root", Password: "root"}))
	do(auth.UserAdd(within(t), &pb.AuthUserAddRequest{Name: "alice", Password: "alice"}))
	do(auth.RoleAdd(within(t), &pb.AuthRoleAddRequest{Name: "a"}))
	do(auth.RoleGrantPermission(within(t), &pb.AuthRoleGrantPermissionRequest{
		Name: "a", Perm: &authpb.Permission{PermType: authpb.Permission_READWRITE, Key: []byte("a")},
	}))
	do(auth.UserGrantRole(within(t), &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"}))
	do(auth.UserGrantRole(within(t), &pb.AuthUserGrantRoleRequest{User: "alice", Role: "a"}))
	do(auth.AuthEnable(within(t), &pb.AuthEnableRequest{}))
	for _, err := range errs {
		require.NoError(t, err)
	}
	return cluster, conn
}

func token(t *testing.T, conn *grpc.ClientConn, name string) string {
	t.Helper()
	resp, err := pb.NewAuthClient(conn).Authenticate(within(t), &pb.AuthenticateRequest{Name: name, Password: name})
	require.NoError(t, err)
	return resp.Token
}

// TestAccess calls each kind of method without a token, with an invalid one, as alice, and as root.
func TestAccess(t *testing.T) {
	cluster, conn := startAuth(t)
	alice, root := token(t, conn, "alice"), token(t, conn, "root")
	mustPut(t, cluster, "b", "")

	txnOf := func(op *pb.RequestOp) *pb.TxnRequest { return &pb.TxnRequest{Failure: []*pb.RequestOp{op}} }
	putB := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put("b", "")}}
	denied, empty, invalid := rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCInvalidAuthToken
	type response = interface{ GetHeader() *pb.ResponseHeader }
	tests := []struct {
		method         string
		req            any
		resp           response
		nobody, wrong  error
		asAlice, asAll error
	}{
		{"KV/Put", put("a", ""), &pb.PutResponse{}, empty, invalid, nil, nil},
		{"KV/Put", put("b", ""), &pb.PutResponse{}, empty, invalid, denied, nil},
		{"KV/Range", get("a"), &pb.RangeResponse{}, empty, invalid, nil, nil},
		{"KV/Range", &pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte("c")}, &pb.RangeResponse{}, empty, invalid, denied, nil},
		{"KV/DeleteRange", &pb.DeleteRangeRequest{Key: []byte("b"), PrevKv: true}, &pb.DeleteRangeResponse{}, empty, invalid, denied, nil},
		{"KV/Txn", txnOf(putB), &pb.TxnResponse{}, empty, invalid, denied, nil},
		{"KV/Txn", &pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte("b")}}}, &pb.TxnResponse{}, empty, invalid, denied, nil},
		{"KV/Compact", &pb.CompactionRequest{Revision: 1}, &pb.CompactionResponse{}, empty, invalid, denied, nil},
		{"Lease/LeaseGrant", &pb.LeaseGrantRequest{TTL: 9}, &pb.LeaseGrantResponse{}, empty, invalid, nil, nil},
		{"Cluster/MemberList", &pb.MemberListRequest{}, &pb.MemberListResponse{}, empty, invalid, nil, nil},
		{"Maintenance/Status", &pb.StatusRequest{}, &pb.StatusResponse{}, empty, invalid, nil, nil},
		{"Maintenance/HashKV", &pb.HashKVRequest{}, &pb.HashKVResponse{}, empty, invalid, denied, nil},
		{"Maintenance/Alarm", &pb.AlarmRequest{}, &pb.AlarmResponse{}, empty, invalid, nil, nil},
		{"Auth/AuthStatus", &pb.AuthStatusRequest{}, &pb.AuthStatusResponse{}, nil, invalid, nil, nil},
		{"Auth/UserList", &pb.AuthUserListRequest{}, &pb.AuthUserListResponse{}, empty, invalid, denied, nil},
		{"Auth/UserGet", &pb.AuthUserGetRequest{Name: "alice"}, &pb.AuthUserGetResponse{}, empty, invalid, nil, nil},
		{"Auth/UserGet", &pb.AuthUserGetRequest{Name: "root"}, &pb.AuthUserGetResponse{}, empty, invalid, denied, nil},
		{"Auth/RoleGet", &pb.AuthRoleGetRequest{Role: "a"}, &pb.AuthRoleGetResponse{}, empty, invalid, nil, nil},
	}
	for _, tt := range tests {
		for _, caller := range []struct {
			name string
			md   []string
			want error
		}{
			{"nobody", nil, tt.nobody},
			{"a wrong token", []string{"token", "wrong"}, tt.wrong},
			{"alice", []string{"token", alice}, tt.asAlice},
			{"root", []string{"authorization", "Bearer " + root}, tt.asAll},
		} {
			t.Run(tt.method+" as "+caller.name, func(t *testing.T) {
				err := conn.Invoke(outgoing(within(t), caller.md...), "/etcdserverpb."+tt.method, tt.req, tt.resp)
				wantError(t, caller.want, err)
				if err == nil {
					assert.Equal(t, cluster.Member(0).ID(), tt.resp.GetHeader().GetMemberId())
				}
			})
		}
	}
}

func TestInvalidateTokens(t *testing.T) {
	cluster, conn := startAuth(t)
	kv := pb.NewKVClient(conn)
	md := []string{"token", token(t, conn, "alice")}
	_, err := kv.Put(outgoing(within(t), md...), put("a", ""))
	require.NoError(t, err)
	cluster.InvalidateTokens()
	_, err = kv.Put(outgoing(within(t), md...), put("a", ""))
	wantError(t, rpctypes.ErrGRPCInvalidAuthToken, err)
	_, err = kv.Put(outgoing(within(t), "token", token(t, conn, "alice")), put("a", ""))
	require.NoError(t, err)
	assert.Equal(t, 2, cluster.PutCount("a"))
}

// A lease can be revoked by a user who may write all of its keys.
func TestLeaseKeysNeedPermission(t *testing.T) {
	_, conn := startAuth(t)
	lease, kv := pb.NewLeaseClient(conn), pb.NewKVClient(conn)
	alice := outgoing(within(t), "token", token(t, conn, "alice"))
	root := outgoing(within(t), "token", token(t, conn, "root"))
	_, err := lease.LeaseGrant(alice, &pb.LeaseGrantRequest{ID: 7, TTL: 60})
	require.NoError(t, err)
	_, err = kv.Put(root, &pb.PutRequest{Key: []byte("b"), Lease: 7})
	require.NoError(t, err)

	_, err = kv.Put(alice, &pb.PutRequest{Key: []byte("a"), Lease: 7})
	wantError(t, rpctypes.ErrGRPCPermissionDenied, err)
	_, err = lease.LeaseRevoke(alice, &pb.LeaseRevokeRequest{ID: 7})
	wantError(t, rpctypes.ErrGRPCPermissionDenied, err)
	_, err = lease.LeaseTimeToLive(alice, &pb.LeaseTimeToLiveRequest{ID: 7, Keys: true})
	wantError(t, rpctypes.ErrGRPCPermissionDenied, err)
	_, err = lease.LeaseTimeToLive(alice, &pb.LeaseTimeToLiveRequest{ID: 7})
	require.NoError(t, err)
	stream, err := lease.LeaseKeepAlive(alice)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&pb.LeaseKeepAliveRequest{ID: 7}))
	_, err = stream.Recv()
	wantError(t, rpctypes.ErrGRPCPermissionDenied, err)
}

// A watch stream with an invalid token opens, and each watch on it is refused.
func TestWatchAuth(t *testing.T) {
	cluster, conn := startAuth(t)
	for _, tt := range []struct {
		md   []string
		want error
	}{
		{nil, rpctypes.ErrGRPCUserEmpty},
		{[]string{"token", "wrong"}, rpctypes.ErrGRPCInvalidAuthToken},
		{[]string{"token", token(t, conn, "alice")}, rpctypes.ErrGRPCPermissionDenied},
	} {
		w := openWatch(t, cluster.Member(0), tt.md...)
		w.create(&pb.WatchCreateRequest{Key: []byte("b")})
		w.expect(&pb.WatchResponse{
			Header: at(1), WatchId: noWatcher, Created: true, Canceled: true, CancelReason: tt.want.Error(),
		})
	}
}
