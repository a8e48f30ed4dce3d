package behaviours_test

import (
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// authRequests make the user alice with the role reader, and the user nopassword, and look at and change them in every
// way that leaves them there.
func authRequests() []proto.Message {
	return slices.Concat([]proto.Message{&pb.AuthStatusRequest{}}, userRequests(), roleRequests(), grantRequests())
}

func userRequests() []proto.Message {
	return []proto.Message{
		&pb.AuthUserAddRequest{},
		&pb.AuthUserAddRequest{Name: alice, Password: "alice"},
		&pb.AuthUserAddRequest{Name: "nopassword", Options: &authpb.UserAddOptions{NoPassword: true}},
		&pb.AuthUserAddRequest{Name: "empty"},
		&pb.AuthUserDeleteRequest{Name: "empty"},
		&pb.AuthUserGetRequest{Name: alice},
		&pb.AuthUserGetRequest{Name: "root"},
		&pb.AuthUserGetRequest{Name: "unknown"},
		&pb.AuthUserGetRequest{},
		&pb.AuthUserListRequest{},
		&pb.AuthUserDeleteRequest{Name: "unknown"},
		&pb.AuthUserChangePasswordRequest{Name: "unknown", Password: "p"},
		&pb.AuthUserChangePasswordRequest{Name: "nopassword", Password: "p"},
	}
}

func roleRequests() []proto.Message {
	all := []proto.Message{
		&pb.AuthRoleAddRequest{},
		&pb.AuthRoleAddRequest{Name: "reader"},
		&pb.AuthRoleAddRequest{Name: "root"},
		&pb.AuthRoleAddRequest{Name: "other"},
		&pb.AuthRoleDeleteRequest{Role: "other"},
		&pb.AuthRoleDeleteRequest{Role: "unknown"},
	}
	for _, p := range []*authpb.Permission{
		nil,
		{},
		{Key: []byte("b"), RangeEnd: []byte("a")},
		{PermType: authpb.Permission_READWRITE, Key: []byte("a")},
		{PermType: authpb.Permission_READ, Key: []byte("b"), RangeEnd: []byte("d")},
		{PermType: authpb.Permission_WRITE, Key: []byte("b"), RangeEnd: []byte("d")},
		{PermType: authpb.Permission_READ, Key: []byte("b"), RangeEnd: []byte("d")},
		{PermType: authpb.Permission_WRITE, Key: []byte("x"), RangeEnd: fromKey()},
	} {
		all = append(all, &pb.AuthRoleGrantPermissionRequest{Name: "reader", Perm: p})
	}
	return append(all,
		&pb.AuthRoleGrantPermissionRequest{Name: "unknown", Perm: &authpb.Permission{Key: []byte("k")}},
		&pb.AuthRoleGrantPermissionRequest{Name: "reader", Perm: &authpb.Permission{Key: []byte("spare")}},
		&pb.AuthRoleRevokePermissionRequest{Role: "reader", Key: []byte("spare")},
		&pb.AuthRoleRevokePermissionRequest{Role: "reader", Key: []byte("q")},
		&pb.AuthRoleRevokePermissionRequest{Role: "unknown"},
		&pb.AuthRoleGetRequest{Role: "reader"},
		&pb.AuthRoleGetRequest{Role: "root"},
		&pb.AuthRoleGetRequest{Role: "unknown"},
		&pb.AuthRoleListRequest{},
	)
}

func grantRequests() []proto.Message {
	return []proto.Message{
		&pb.AuthUserGrantRoleRequest{User: alice, Role: "reader"},
		&pb.AuthUserGrantRoleRequest{User: alice, Role: "reader"},
		&pb.AuthUserGrantRoleRequest{User: alice, Role: "unknown"},
		&pb.AuthUserGrantRoleRequest{User: "unknown", Role: "reader"},
		&pb.AuthUserRevokeRoleRequest{Name: alice, Role: "unknown"},
		&pb.AuthUserRevokeRoleRequest{Name: "unknown", Role: "reader"},
		&pb.AuthUserRevokeRoleRequest{Name: "root", Role: "root"},
		&pb.AuthUserGetRequest{Name: alice},
	}
}
