package clientv3_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

// unaryCase is a call of a service, with the method and request that it must send.
type unaryCase struct {
	method string
	call   func(ctx context.Context) (any, error)
	want   proto.Message
}

// testUnary makes every call twice, once answered and once refused.
func testUnary(t *testing.T, r *recorder, cases []unaryCase) {
	for _, tt := range cases {
		t.Run(tt.method, func(t *testing.T) {
			*r = recorder{}
			resp, err := tt.call(t.Context())
			require.NoError(t, err)
			require.NotNil(t, resp)
			sent := r.only(t)
			require.Equal(t, tt.method, sent.method)
			requireProto(t, tt.want, sent.req)

			*r = *failing(rpctypes.ErrGRPCPermissionDenied)
			resp, err = tt.call(t.Context())
			require.Nil(t, resp)
			require.Equal(t, rpctypes.ErrPermissionDenied, err, "%v must be bare", err)
		})
	}
}

func TestAuth(t *testing.T) {
	r := &recorder{}
	auth := NewAuthFromAuthClient(pb.NewAuthClient(r), nil)
	testUnary(t, r, []unaryCase{
		{
			pb.Auth_Authenticate_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.Authenticate(ctx, "u", "p") },
			&pb.AuthenticateRequest{Name: "u", Password: "p"},
		},
		{
			pb.Auth_AuthEnable_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.AuthEnable(ctx) }, &pb.AuthEnableRequest{},
		},
		{
			pb.Auth_AuthDisable_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.AuthDisable(ctx) }, &pb.AuthDisableRequest{},
		},
		{
			pb.Auth_AuthStatus_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.AuthStatus(ctx) }, &pb.AuthStatusRequest{},
		},
		{
			pb.Auth_UserAdd_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.UserAdd(ctx, "u", "p") },
			&pb.AuthUserAddRequest{Name: "u", Password: "p", Options: &authpb.UserAddOptions{}},
		},
		{
			pb.Auth_UserAdd_FullMethodName,
			func(ctx context.Context) (any, error) {
				return auth.UserAddWithOptions(ctx, "u", "", &UserAddOptions{NoPassword: true})
			},
			&pb.AuthUserAddRequest{Name: "u", Options: &authpb.UserAddOptions{NoPassword: true}},
		},
		{
			pb.Auth_UserAdd_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.UserAddWithOptions(ctx, "u", "p", nil) },
			&pb.AuthUserAddRequest{Name: "u", Password: "p"},
		},
		{
			pb.Auth_UserDelete_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.UserDelete(ctx, "u") },
			&pb.AuthUserDeleteRequest{Name: "u"},
		},
		{
			pb.Auth_UserChangePassword_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.UserChangePassword(ctx, "u", "p") },
			&pb.AuthUserChangePasswordRequest{Name: "u", Password: "p"},
		},
		{
			pb.Auth_UserGrantRole_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.UserGrantRole(ctx, "u", "r") },
			&pb.AuthUserGrantRoleRequest{User: "u", Role: "r"},
		},
		{
			pb.Auth_UserGet_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.UserGet(ctx, "u") },
			&pb.AuthUserGetRequest{Name: "u"},
		},
		{
			pb.Auth_UserList_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.UserList(ctx) }, &pb.AuthUserListRequest{},
		},
		{
			pb.Auth_UserRevokeRole_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.UserRevokeRole(ctx, "u", "r") },
			&pb.AuthUserRevokeRoleRequest{Name: "u", Role: "r"},
		},
		{
			pb.Auth_RoleAdd_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.RoleAdd(ctx, "r") },
			&pb.AuthRoleAddRequest{Name: "r"},
		},
		{
			pb.Auth_RoleGrantPermission_FullMethodName,
			func(ctx context.Context) (any, error) {
				return auth.RoleGrantPermission(ctx, "r", "k", "z", PermissionType(PermReadWrite))
			},
			&pb.AuthRoleGrantPermissionRequest{Name: "r", Perm: &authpb.Permission{
				PermType: authpb.Permission_READWRITE, Key: []byte("k"), RangeEnd: []byte("z"),
			}},
		},
		{
			pb.Auth_RoleGet_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.RoleGet(ctx, "r") },
			&pb.AuthRoleGetRequest{Role: "r"},
		},
		{
			pb.Auth_RoleList_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.RoleList(ctx) }, &pb.AuthRoleListRequest{},
		},
		{
			pb.Auth_RoleRevokePermission_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.RoleRevokePermission(ctx, "r", "k", "z") },
			&pb.AuthRoleRevokePermissionRequest{Role: "r", Key: []byte("k"), RangeEnd: []byte("z")},
		},
		{
			pb.Auth_RoleDelete_FullMethodName,
			func(ctx context.Context) (any, error) { return auth.RoleDelete(ctx, "r") },
			&pb.AuthRoleDeleteRequest{Role: "r"},
		},
	})
}

func TestStrToPermissionType(t *testing.T) {
	for name, want := range map[string]authpb.Permission_Type{
		"read": PermRead, "READ": PermRead, "Write": PermWrite, "readwrite": PermReadWrite,
	} {
		got, err := StrToPermissionType(name)
		require.NoError(t, err)
		require.Equal(t, PermissionType(want), got, name)
	}
	got, err := StrToPermissionType("all")
	require.EqualError(t, err, "invalid permission type: all")
	require.Equal(t, PermissionType(-1), got)
}

func TestCluster(t *testing.T) {
	r := &recorder{}
	cluster := NewClusterFromClusterClient(pb.NewClusterClient(r), nil)
	peers := []string{"http://10.0.0.1:2380"}
	testUnary(t, r, []unaryCase{
		{
			pb.Cluster_MemberList_FullMethodName,
			func(ctx context.Context) (any, error) { return cluster.MemberList(ctx) },
			&pb.MemberListRequest{Linearizable: true},
		},
		{
			pb.Cluster_MemberList_FullMethodName,
			func(ctx context.Context) (any, error) { return cluster.MemberList(ctx, WithSerializable()) },
			&pb.MemberListRequest{},
		},
		{
			pb.Cluster_MemberAdd_FullMethodName,
			func(ctx context.Context) (any, error) { return cluster.MemberAdd(ctx, peers) },
			&pb.MemberAddRequest{PeerURLs: peers},
		},
		{
			pb.Cluster_MemberAdd_FullMethodName,
			func(ctx context.Context) (any, error) { return cluster.MemberAddAsLearner(ctx, peers) },
			&pb.MemberAddRequest{PeerURLs: peers, IsLearner: true},
		},
		{
			pb.Cluster_MemberRemove_FullMethodName,
			func(ctx context.Context) (any, error) { return cluster.MemberRemove(ctx, 7) },
			&pb.MemberRemoveRequest{ID: 7},
		},
		{
			pb.Cluster_MemberUpdate_FullMethodName,
			func(ctx context.Context) (any, error) { return cluster.MemberUpdate(ctx, 7, peers) },
			&pb.MemberUpdateRequest{ID: 7, PeerURLs: peers},
		},
		{
			pb.Cluster_MemberPromote_FullMethodName,
			func(ctx context.Context) (any, error) { return cluster.MemberPromote(ctx, 7) },
			&pb.MemberPromoteRequest{ID: 7},
		},
	})
}

func TestBadPeerURLsAreNotSent(t *testing.T) {
	r := &recorder{}
	cluster := NewClusterFromClusterClient(pb.NewClusterClient(r), nil)
	for _, urls := range [][]string{
		nil,
		{""},
		{"10.0.0.1:2380"},
		{"http://10.0.0.1"},
		{"http://10.0.0.1:2380/path"},
		{"ftp://10.0.0.1:2380"},
		{"http://10.0.0.1:2380", "nonsense"},
	} {
		_, err := cluster.MemberAdd(t.Context(), urls)
		require.Error(t, err, "%q", urls)
		_, err = cluster.MemberAddAsLearner(t.Context(), urls)
		require.Error(t, err, "%q", urls)
		_, err = cluster.MemberUpdate(t.Context(), 7, urls)
		require.Error(t, err, "%q", urls)
	}
	require.Empty(t, r.calls)
}

func TestMaintenance(t *testing.T) {
	r := &recorder{}
	m := NewMaintenanceFromMaintenanceClient(pb.NewMaintenanceClient(r), nil)
	testUnary(t, r, []unaryCase{
		{
			pb.Maintenance_Alarm_FullMethodName,
			func(ctx context.Context) (any, error) { return m.AlarmList(ctx) },
			&pb.AlarmRequest{Action: pb.AlarmRequest_GET},
		},
		{
			pb.Maintenance_Alarm_FullMethodName,
			func(ctx context.Context) (any, error) {
				return m.AlarmDisarm(ctx, &AlarmMember{MemberID: 7, Alarm: pb.AlarmType_NOSPACE})
			},
			&pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: 7, Alarm: pb.AlarmType_NOSPACE},
		},
		{
			pb.Maintenance_Alarm_FullMethodName,
			func(ctx context.Context) (any, error) { return m.AlarmDisarm(ctx, &AlarmMember{MemberID: 7}) },
			&pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: 7},
		},
		{
			pb.Maintenance_Defragment_FullMethodName,
			func(ctx context.Context) (any, error) { return m.Defragment(ctx, "ep") }, &pb.DefragmentRequest{},
		},
		{
			pb.Maintenance_Status_FullMethodName,
			func(ctx context.Context) (any, error) { return m.Status(ctx, "ep") }, &pb.StatusRequest{},
		},
		{
			pb.Maintenance_HashKV_FullMethodName,
			func(ctx context.Context) (any, error) { return m.HashKV(ctx, "ep", 7) }, &pb.HashKVRequest{Revision: 7},
		},
		{
			pb.Maintenance_MoveLeader_FullMethodName,
			func(ctx context.Context) (any, error) { return m.MoveLeader(ctx, 7) }, &pb.MoveLeaderRequest{TargetID: 7},
		},
		{
			pb.Maintenance_Downgrade_FullMethodName,
			func(ctx context.Context) (any, error) { return m.Downgrade(ctx, DowngradeValidate, "3.6.0") },
			&pb.DowngradeRequest{Action: pb.DowngradeRequest_VALIDATE, Version: "3.6.0"},
		},
		{
			pb.Maintenance_Downgrade_FullMethodName,
			func(ctx context.Context) (any, error) { return m.Downgrade(ctx, DowngradeEnable, "3.6.0") },
			&pb.DowngradeRequest{Action: pb.DowngradeRequest_ENABLE, Version: "3.6.0"},
		},
		{
			pb.Maintenance_Downgrade_FullMethodName,
			func(ctx context.Context) (any, error) { return m.Downgrade(ctx, DowngradeCancel, "") },
			&pb.DowngradeRequest{Action: pb.DowngradeRequest_CANCEL},
		},
	})
}

func TestDowngradeUnknownAction(t *testing.T) {
	r := &recorder{}
	m := NewMaintenanceFromMaintenanceClient(pb.NewMaintenanceClient(r), nil)
	_, err := m.Downgrade(t.Context(), 99, "3.6.0")
	require.EqualError(t, err, "etcdclient: unknown downgrade action")
	require.Empty(t, r.calls)
}

func TestAlarmDisarmAll(t *testing.T) {
	raised := []*pb.AlarmMember{
		{MemberID: 1, Alarm: pb.AlarmType_NOSPACE},
		{MemberID: 2, Alarm: pb.AlarmType_CORRUPT},
		{MemberID: 0, Alarm: pb.AlarmType_NONE}, // must not be sent, it means "all"
	}
	r := &recorder{answer: func(c call) (proto.Message, error) {
		req := c.req.(*pb.AlarmRequest)
		if req.Action == pb.AlarmRequest_GET {
			return &pb.AlarmResponse{Alarms: raised}, nil
		}
		return &pb.AlarmResponse{Alarms: []*pb.AlarmMember{{MemberID: req.MemberID, Alarm: req.Alarm}}}, nil
	}}
	m := NewMaintenanceFromMaintenanceClient(pb.NewMaintenanceClient(r), nil)
	resp, err := m.AlarmDisarm(t.Context(), &AlarmMember{})
	require.NoError(t, err)
	requireProto(t, &pb.AlarmResponse{Alarms: raised}, (*pb.AlarmResponse)(resp))
	require.Len(t, r.calls, 1+len(raised))
}

func TestAlarmDisarmAllStopsAtAnError(t *testing.T) {
	r := &recorder{}
	r.answer = func(call) (proto.Message, error) {
		if len(r.calls) == 1 {
			return &pb.AlarmResponse{Alarms: []*pb.AlarmMember{{MemberID: 1, Alarm: 1}, {MemberID: 2, Alarm: 1}}}, nil
		}
		return nil, rpctypes.ErrGRPCPermissionDenied
	}
	m := NewMaintenanceFromMaintenanceClient(pb.NewMaintenanceClient(r), nil)
	resp, err := m.AlarmDisarm(t.Context(), &AlarmMember{})
	require.Nil(t, resp)
	require.Equal(t, rpctypes.ErrPermissionDenied, err)
	require.Len(t, r.calls, 2)

	_, err = m.AlarmDisarm(t.Context(), nil)
	require.ErrorContains(t, err, "no alarm to disarm")
}

// Callers of one endpoint share its connection, from the first call on.
func TestStatusForManyCallersAtOnce(t *testing.T) {
	for range 20 {
		cluster, c := clienttest.StartClient(t, 1)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				_, err := c.Status(t.Context(), cluster.Endpoints()[0])
				assert.NoError(t, err)
			})
		}
		all.Wait()
	}
}
