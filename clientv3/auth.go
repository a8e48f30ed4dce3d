package clientv3

import (
	"context"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// The responses to the methods of [Auth], each named after its method.
type (
	// AuthEnableResponse is the response to [Auth.AuthEnable].
	AuthEnableResponse pb.AuthEnableResponse
	// AuthDisableResponse is the response to [Auth.AuthDisable].
	AuthDisableResponse pb.AuthDisableResponse
	// AuthStatusResponse is the response to [Auth.AuthStatus].
	AuthStatusResponse pb.AuthStatusResponse
	// AuthenticateResponse is the response to [Auth.Authenticate].
	AuthenticateResponse pb.AuthenticateResponse
	// AuthUserAddResponse is the response to [Auth.UserAdd].
	AuthUserAddResponse pb.AuthUserAddResponse
	// AuthUserDeleteResponse is the response to [Auth.UserDelete].
	AuthUserDeleteResponse pb.AuthUserDeleteResponse
	// AuthUserChangePasswordResponse is the response to [Auth.UserChangePassword].
	AuthUserChangePasswordResponse pb.AuthUserChangePasswordResponse
	// AuthUserGrantRoleResponse is the response to [Auth.UserGrantRole].
	AuthUserGrantRoleResponse pb.AuthUserGrantRoleResponse
	// AuthUserGetResponse is the response to [Auth.UserGet].
	AuthUserGetResponse pb.AuthUserGetResponse
	// AuthUserRevokeRoleResponse is the response to [Auth.UserRevokeRole].
	AuthUserRevokeRoleResponse pb.AuthUserRevokeRoleResponse
	// AuthRoleAddResponse is the response to [Auth.RoleAdd].
	AuthRoleAddResponse pb.AuthRoleAddResponse
	// AuthRoleGrantPermissionResponse is the response to [Auth.RoleGrantPermission].
	AuthRoleGrantPermissionResponse pb.AuthRoleGrantPermissionResponse
	// AuthRoleGetResponse is the response to [Auth.RoleGet].
	AuthRoleGetResponse pb.AuthRoleGetResponse
	// AuthRoleRevokePermissionResponse is the response to [Auth.RoleRevokePermission].
	AuthRoleRevokePermissionResponse pb.AuthRoleRevokePermissionResponse
	// AuthRoleDeleteResponse is the response to [Auth.RoleDelete].
	AuthRoleDeleteResponse pb.AuthRoleDeleteResponse
	// AuthUserListResponse is the response to [Auth.UserList].
	AuthUserListResponse pb.AuthUserListResponse
	// AuthRoleListResponse is the response to [Auth.RoleList].
	AuthRoleListResponse pb.AuthRoleListResponse
)

// PermissionType says what a permission allows: [PermRead], [PermWrite] or
// [PermReadWrite].
type PermissionType authpb.Permission_Type

// Permission is one permission of a role: what it allows on which keys.
type Permission authpb.Permission

// UserAddOptions are the options of [Auth.UserAddWithOptions].
type UserAddOptions authpb.UserAddOptions

const (
	// PermRead allows reading and watching.
	PermRead = authpb.Permission_READ
	// PermWrite allows putting and deleting.
	PermWrite = authpb.Permission_WRITE
	// PermReadWrite allows both.
	PermReadWrite = authpb.Permission_READWRITE
)

// StrToPermissionType returns the permission type of the given name, "READ",
// "WRITE" or "READWRITE" in any case; for another name an error and -1.
func StrToPermissionType(s string) (PermissionType, error) {
	val, ok := authpb.Permission_Type_value[strings.ToUpper(s)]
	if !ok {
		return -1, fmt.Errorf("invalid permission type: %s", s)
	}
	return PermissionType(val), nil
}

// Auth reads and changes users, roles and their permissions, and turns
// authentication on and off. Reads are repeated after a fault; changes reach a
// server at most once and give a *retry.UnknownOutcomeError when their outcome is
// unknown.
type Auth interface {
	// Authenticate logs in and returns a token. The client does so by itself when
	// its Config has a Username and Password.
	Authenticate(ctx context.Context, name string, password string) (*AuthenticateResponse, error)

	// AuthEnable turns authentication on. It needs a user root that has the role
	// root.
	AuthEnable(ctx context.Context) (*AuthEnableResponse, error)

	// AuthDisable turns authentication off.
	AuthDisable(ctx context.Context) (*AuthDisableResponse, error)

	// AuthStatus reports whether authentication is on.
	AuthStatus(ctx context.Context) (*AuthStatusResponse, error)

	// UserAdd adds a user who logs in with a password.
	UserAdd(ctx context.Context, name string, password string) (*AuthUserAddResponse, error)

	// UserAddWithOptions adds a user. A user with NoPassword can log in only with
	// the common name of a TLS certificate.
	UserAddWithOptions(ctx context.Context, name string, password string, opt *UserAddOptions) (*AuthUserAddResponse, error)

	// UserDelete deletes a user.
	UserDelete(ctx context.Context, name string) (*AuthUserDeleteResponse, error)

	// UserChangePassword changes the password of a user.
	UserChangePassword(ctx context.Context, name string, password string) (*AuthUserChangePasswordResponse, error)

	// UserGrantRole grants a role to a user.
	UserGrantRole(ctx context.Context, user string, role string) (*AuthUserGrantRoleResponse, error)

	// UserGet lists the roles of a user.
	UserGet(ctx context.Context, name string) (*AuthUserGetResponse, error)

	// UserList lists the names of all users.
	UserList(ctx context.Context) (*AuthUserListResponse, error)

	// UserRevokeRole revokes a role from a user.
	UserRevokeRole(ctx context.Context, name string, role string) (*AuthUserRevokeRoleResponse, error)

	// RoleAdd adds a role, without permissions.
	RoleAdd(ctx context.Context, name string) (*AuthRoleAddResponse, error)

	// RoleGrantPermission grants a role the permission permType on key, or on [key,
	// rangeEnd) if rangeEnd is not empty.
	RoleGrantPermission(ctx context.Context, name string, key, rangeEnd string, permType PermissionType) (*AuthRoleGrantPermissionResponse, error)

	// RoleGet lists the permissions of a role.
	RoleGet(ctx context.Context, role string) (*AuthRoleGetResponse, error)

	// RoleList lists the names of all roles.
	RoleList(ctx context.Context) (*AuthRoleListResponse, error)

	// RoleRevokePermission revokes from a role the permission on exactly key, or on
	// exactly [key, rangeEnd).
	RoleRevokePermission(ctx context.Context, role string, key, rangeEnd string) (*AuthRoleRevokePermissionResponse, error)

	// RoleDelete deletes a role and revokes it from all users.
	RoleDelete(ctx context.Context, role string) (*AuthRoleDeleteResponse, error)
}
