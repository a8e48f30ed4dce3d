package fakeetcd

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// What each kind of user may do is tested in lab/behaviours, which compares every answer with etcd's.

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
	require.NoError(t, errors.Join(errs...))
	return cluster, conn
}

func token(t *testing.T, conn *grpc.ClientConn, name string) string {
	t.Helper()
	resp, err := pb.NewAuthClient(conn).Authenticate(within(t), &pb.AuthenticateRequest{Name: name, Password: name})
	require.NoError(t, err)
	return resp.Token
}

// TestTokens uses tokens in both forms, until the test or a pause of authentication ends them.
func TestTokens(t *testing.T) {
	cluster, conn := startAuth(t)
	putAs := func(md ...string) error {
		_, err := pb.NewKVClient(conn).Put(outgoing(within(t), md...), put("a", ""))
		return err
	}
	first := token(t, conn, "alice")
	require.NoError(t, putAs("token", first))
	require.NoError(t, putAs("authorization", "Bearer "+first))
	cluster.InvalidateTokens()
	wantError(t, rpctypes.ErrGRPCInvalidAuthToken, putAs("token", first))

	second, root := token(t, conn, "alice"), outgoing(within(t), "token", token(t, conn, "root"))
	require.NoError(t, putAs("token", second))
	_, err := pb.NewAuthClient(conn).AuthDisable(root, &pb.AuthDisableRequest{})
	require.NoError(t, err)
	require.NoError(t, putAs("token", "of no meaning"))
	_, err = pb.NewAuthClient(conn).AuthEnable(root, &pb.AuthEnableRequest{})
	require.NoError(t, err)
	wantError(t, rpctypes.ErrGRPCInvalidAuthToken, putAs("token", second))
}

// A lease can be changed by a user who may write all of its keys, and its keys are shown to one who may read them.
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
