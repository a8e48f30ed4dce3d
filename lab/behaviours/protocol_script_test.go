package behaviours_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// The users of TestScript, beside root. The tokens of the last two are made up: one has the form of a token.
const (
	nobody   = ""
	alice    = "alice"
	mallory  = "mallory"
	mallory2 = "mallory with a token that is none"
)

// TestScript makes the calls of every service without a user before authentication is enabled, as every kind of user while it
// is, and while the rights of a user are taken away one by one.
func TestScript(t *testing.T) {
	t.Parallel()
	etcd := settledEtcd(t)
	transcript := requireLikeEtcd(t, etcd, fakeEtcd(t), func(s *session) {
		s.tokens[mallory], s.tokens[mallory2] = "made.1", "up"
		s.script([]proto.Message{&healthpb.HealthCheckRequest{}, &healthpb.HealthCheckRequest{Service: "etcdserverpb.KV"}})
		for _, unknown := range []string{"/etcdserverpb.KV/Increment", "/etcdserverpb.Cache/Get"} {
			s.callMethod(method{path: unknown, response: rangeStream.response}, &pb.RangeRequest{})
		}
		s.script(keyRequests(), leaseRequests(), clusterRequests(), maintenanceRequests(), authRequests())
		s.enableAuth()
		for _, user := range []string{nobody, mallory, mallory2, alice, "root"} {
			s.as(user)
			for _, k := range []string{"a", "other"} {
				s.watching(func(s *watchSession) {
					s.create(key(k))
					s.receive(1)
				})
			}
			s.script(authRequests(), keyRequests(), leaseRequests(), clusterRequests(), maintenanceRequests(),
				[]proto.Message{&pb.AuthEnableRequest{}})
		}
		s.withdrawRights()
	})
	var succeeded []string
	for _, m := range methods {
		if !slices.Contains(neverOnOneMember, m.path) {
			succeeded = append(succeeded, m.path)
		}
	}
	reasons := make(map[string]bool) // why watches are refused
	for _, e := range transcript {
		for _, r := range e.Responses {
			if r, ok := r.(*pb.WatchResponse); ok {
				reasons[r.CancelReason] = true
			}
		}
	}
	require.Equal(t, map[string]bool{
		rpctypes.ErrGRPCUserEmpty.Error(): true, rpctypes.ErrGRPCInvalidAuthToken.Error(): true, rpctypes.ErrGRPCPermissionDenied.Error(): true, "": true,
	}, reasons)
	requireSeen(t, transcript, succeeded, []error{
		rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCPermissionDenied,
		rpctypes.ErrGRPCAuthFailed, rpctypes.ErrGRPCAuthNotEnabled,
		rpctypes.ErrGRPCRootUserNotExist, rpctypes.ErrGRPCRootRoleNotExist, rpctypes.ErrGRPCInvalidAuthMgmt,
		rpctypes.ErrGRPCUserAlreadyExist, rpctypes.ErrGRPCUserNotFound, rpctypes.ErrGRPCRoleAlreadyExist,
		rpctypes.ErrGRPCRoleNotFound, rpctypes.ErrGRPCRoleEmpty, rpctypes.ErrGRPCRoleNotGranted,
		rpctypes.ErrGRPCPermissionNotGranted, rpctypes.ErrGRPCPermissionNotGiven,
		rpctypes.ErrGRPCMemberNotFound, rpctypes.ErrGRPCMemberBadURLs, rpctypes.ErrGRPCBadLeaderTransferee,
		rpctypes.ErrGRPCLeaseTTLTooLarge, rpctypes.ErrGRPCWrongDowngradeVersionFormat,
		rpctypes.ErrGRPCInvalidDowngradeTargetVersion, rpctypes.ErrGRPCNoSpace,
		status.Error(codes.Unknown, "etcdserver: unknown method"),
	})
}

// neverOnOneMember are the methods that are only refused in TestScript: they need a second member, or are streams.
var neverOnOneMember = []string{
	pb.Cluster_MemberAdd_FullMethodName, pb.Cluster_MemberRemove_FullMethodName, pb.Cluster_MemberUpdate_FullMethodName,
	pb.Cluster_MemberPromote_FullMethodName, pb.Maintenance_MoveLeader_FullMethodName,
	pb.Watch_Watch_FullMethodName, pb.Lease_LeaseKeepAlive_FullMethodName, pb.Maintenance_Snapshot_FullMethodName,
	"/grpc.health.v1.Health/List",
}

func (s *session) script(parts ...[]proto.Message) {
	for _, req := range slices.Concat(parts...) {
		s.call(req)
	}
}

func (s *session) login(name, password string) {
	s.call(&pb.AuthenticateRequest{Name: name, Password: password})
}

// enableAuth tries to log in and to enable authentication whenever something is still missing for it.
func (s *session) enableAuth() {
	s.login("root", "root")
	s.script([]proto.Message{
		&pb.AuthEnableRequest{}, // without root
		&pb.AuthUserAddRequest{Name: "root", Password: "root"},
		&pb.AuthEnableRequest{}, // without root's role
		&pb.AuthUserGrantRoleRequest{User: "root", Role: "root"},
		&pb.AuthDisableRequest{},
		&pb.AuthEnableRequest{},
	})
	s.login("root", "wrong")
	s.login("unknown", "x")
	s.login("nopassword", "")
	s.login("nopassword", "x")
	s.login("root", "root")
	s.login(alice, "alice")
}

// withdrawRights changes alice's password, and takes her role and herself away.
func (s *session) withdrawRights() {
	s.as("root")
	s.script([]proto.Message{
		&pb.AuthUserDeleteRequest{Name: "root"},
		&pb.AuthRoleDeleteRequest{Role: "root"},
		&pb.AuthUserRevokeRoleRequest{Name: "root", Role: "root"},
		&pb.AuthUserChangePasswordRequest{Name: alice, Password: "new"},
	})
	s.as(alice)
	s.script(keyRequests())
	s.login(alice, "alice")
	s.login(alice, "new")
	s.script(keyRequests(), leaseRequests())
	for _, change := range []proto.Message{
		&pb.AuthRoleRevokePermissionRequest{Role: "reader", Key: []byte("a")},
		&pb.AuthUserRevokeRoleRequest{Name: alice, Role: "reader"},
		&pb.AuthUserGrantRoleRequest{User: alice, Role: "reader"},
		&pb.AuthRoleDeleteRequest{Role: "reader"},
		&pb.AuthUserDeleteRequest{Name: alice},
		&pb.AuthDisableRequest{},
	} {
		s.as("root")
		s.call(change)
		s.as(alice)
		s.script(keyRequests())
	}
	s.call(&pb.AuthStatusRequest{})
}
