package clientv3_test

import (
	"context"
	"reflect"
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

// unaryCase is a call of a service, with the request that it must send: its type is that of one method only.
type unaryCase struct {
	call any // a function of a context, the args and options
	args args
	want proto.Message
}

type args []any

func (c unaryCase) make(ctx context.Context) (resp any, err error) {
	call, in := reflect.ValueOf(c.call), []reflect.Value{reflect.ValueOf(ctx)}
	for i, arg := range c.args {
		v := reflect.ValueOf(arg)
		if param := call.Type().In(i + 1); v.CanConvert(param) {
			v = v.Convert(param)
		}
		in = append(in, v)
	}
	out := call.Call(in)
	if !out[0].IsNil() {
		resp = out[0].Interface()
	}
	err, _ = out[1].Interface().(error)
	return resp, err
}

// testUnary makes every call twice, once answered and once refused.
func testUnary(t *testing.T, r *recorder, cases []unaryCase) {
	for _, tt := range cases {
		t.Run(string(proto.MessageName(tt.want).Name()), func(t *testing.T) {
			*r = recorder{}
			resp, err := tt.make(t.Context())
			require.NoError(t, err)
			require.NotNil(t, resp)
			requireProto(t, tt.want, r.only(t))

			*r = *failing(rpctypes.ErrGRPCPermissionDenied)
			resp, err = tt.make(t.Context())
			require.Nil(t, resp)
			require.Equal(t, rpctypes.ErrPermissionDenied, err, "%v must be bare", err)
		})
	}
}

func TestAuth(t *testing.T) {
	r := &recorder{}
	auth := NewAuthFromAuthClient(pb.NewAuthClient(r), nil)
	testUnary(t, r, []unaryCase{
		{auth.Authenticate, args{"u", "p"}, &pb.AuthenticateRequest{Name: "u", Password: "p"}},
		{auth.AuthEnable, nil, &pb.AuthEnableRequest{}},
		{auth.AuthDisable, nil, &pb.AuthDisableRequest{}},
		{auth.AuthStatus, nil, &pb.AuthStatusRequest{}},
		{auth.UserAdd, args{"u", "p"}, &pb.AuthUserAddRequest{Name: "u", Password: "p", Options: &authpb.UserAddOptions{}}},
		{
			auth.UserAddWithOptions,
			args{"u", "", &UserAddOptions{NoPassword: true}},
			&pb.AuthUserAddRequest{Name: "u", Options: &authpb.UserAddOptions{NoPassword: true}},
		},
		{auth.UserAddWithOptions, args{"u", "p", (*UserAddOptions)(nil)}, &pb.AuthUserAddRequest{Name: "u", Password: "p"}},
		{auth.UserDelete, args{"u"}, &pb.AuthUserDeleteRequest{Name: "u"}},
		{auth.UserChangePassword, args{"u", "p"}, &pb.AuthUserChangePasswordRequest{Name: "u", Password: "p"}},
		{auth.UserGrantRole, args{"u", "r"}, &pb.AuthUserGrantRoleRequest{User: "u", Role: "r"}},
		{auth.UserGet, args{"u"}, &pb.AuthUserGetRequest{Name: "u"}},
		{auth.UserList, nil, &pb.AuthUserListRequest{}},
		{auth.UserRevokeRole, args{"u", "r"}, &pb.AuthUserRevokeRoleRequest{Name: "u", Role: "r"}},
		{auth.RoleAdd, args{"r"}, &pb.AuthRoleAddRequest{Name: "r"}},
		{
			auth.RoleGrantPermission,
			args{"r", "k", "z", PermReadWrite},
			&pb.AuthRoleGrantPermissionRequest{Name: "r", Perm: &authpb.Permission{
				PermType: authpb.Permission_READWRITE, Key: []byte("k"), RangeEnd: []byte("z"),
			}},
		},
		{auth.RoleGet, args{"r"}, &pb.AuthRoleGetRequest{Role: "r"}},
		{auth.RoleList, nil, &pb.AuthRoleListRequest{}},
		{
			auth.RoleRevokePermission,
			args{"r", "k", "z"},
			&pb.AuthRoleRevokePermissionRequest{Role: "r", Key: []byte("k"), RangeEnd: []byte("z")},
		},
		{auth.RoleDelete, args{"r"}, &pb.AuthRoleDeleteRequest{Role: "r"}},
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
		{cluster.MemberList, nil, &pb.MemberListRequest{Linearizable: true}},
		{cluster.MemberList, args{WithSerializable()}, &pb.MemberListRequest{}},
		{cluster.MemberAdd, args{peers}, &pb.MemberAddRequest{PeerURLs: peers}},
		{cluster.MemberAddAsLearner, args{peers}, &pb.MemberAddRequest{PeerURLs: peers, IsLearner: true}},
		{cluster.MemberRemove, args{7}, &pb.MemberRemoveRequest{ID: 7}},
		{cluster.MemberUpdate, args{7, peers}, &pb.MemberUpdateRequest{ID: 7, PeerURLs: peers}},
		{cluster.MemberPromote, args{7}, &pb.MemberPromoteRequest{ID: 7}},
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
		{m.AlarmList, nil, &pb.AlarmRequest{Action: pb.AlarmRequest_GET}},
		{
			m.AlarmDisarm,
			args{&AlarmMember{MemberID: 7, Alarm: pb.AlarmType_NOSPACE}},
			&pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: 7, Alarm: pb.AlarmType_NOSPACE},
		},
		{m.AlarmDisarm, args{&AlarmMember{MemberID: 7}}, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: 7}},
		{m.Defragment, args{"ep"}, &pb.DefragmentRequest{}},
		{m.Status, args{"ep"}, &pb.StatusRequest{}},
		{m.HashKV, args{"ep", 7}, &pb.HashKVRequest{Revision: 7}},
		{m.MoveLeader, args{7}, &pb.MoveLeaderRequest{TargetID: 7}},
		{m.Downgrade, args{DowngradeValidate, "3.6.0"}, &pb.DowngradeRequest{Action: pb.DowngradeRequest_VALIDATE, Version: "3.6.0"}},
		{m.Downgrade, args{DowngradeEnable, "3.6.0"}, &pb.DowngradeRequest{Action: pb.DowngradeRequest_ENABLE, Version: "3.6.0"}},
		{m.Downgrade, args{DowngradeCancel, ""}, &pb.DowngradeRequest{Action: pb.DowngradeRequest_CANCEL}},
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
	r := &recorder{answer: func(sent proto.Message) (proto.Message, error) {
		req := sent.(*pb.AlarmRequest)
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
	r.answer = func(proto.Message) (proto.Message, error) {
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
