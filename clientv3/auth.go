package clientv3

import (
	"context"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
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

type authClient struct {
	remote   pb.AuthClient
	callOpts []grpc.CallOption
}

// NewAuth returns the Auth service of a client.
func NewAuth(c *Client) Auth { return NewAuthFromAuthClient(RetryAuthClient(c), c) }

// NewAuthFromAuthClient returns the Auth service over remote, with the call options
// of c. c may be nil.
func NewAuthFromAuthClient(remote pb.AuthClient, c *Client) Auth {
	return &authClient{remote: remote, callOpts: orNone(c).callOpts}
}

func (a *authClient) Authenticate(ctx context.Context, name string, password string) (*AuthenticateResponse, error) {
	req := &pb.AuthenticateRequest{Name: name, Password: password}
	resp, err := invoke(ctx, a.remote.Authenticate, req, a.callOpts)
	return (*AuthenticateResponse)(resp), err
}

func (a *authClient) AuthEnable(ctx context.Context) (*AuthEnableResponse, error) {
	resp, err := invoke(ctx, a.remote.AuthEnable, &pb.AuthEnableRequest{}, a.callOpts)
	return (*AuthEnableResponse)(resp), err
}

func (a *authClient) AuthDisable(ctx context.Context) (*AuthDisableResponse, error) {
	resp, err := invoke(ctx, a.remote.AuthDisable, &pb.AuthDisableRequest{}, a.callOpts)
	return (*AuthDisableResponse)(resp), err
}

func (a *authClient) AuthStatus(ctx context.Context) (*AuthStatusResponse, error) {
	resp, err := invoke(ctx, a.remote.AuthStatus, &pb.AuthStatusRequest{}, a.callOpts)
	return (*AuthStatusResponse)(resp), err
}

func (a *authClient) UserAdd(ctx context.Context, name string, password string) (*AuthUserAddResponse, error) {
	return a.UserAddWithOptions(ctx, name, password, &UserAddOptions{})
}

func (a *authClient) UserAddWithOptions(ctx context.Context, name string, password string, opt *UserAddOptions) (*AuthUserAddResponse, error) {
	req := &pb.AuthUserAddRequest{Name: name, Password: password, Options: (*authpb.UserAddOptions)(opt)}
	resp, err := invoke(ctx, a.remote.UserAdd, req, a.callOpts)
	return (*AuthUserAddResponse)(resp), err
}

func (a *authClient) UserDelete(ctx context.Context, name string) (*AuthUserDeleteResponse, error) {
	resp, err := invoke(ctx, a.remote.UserDelete, &pb.AuthUserDeleteRequest{Name: name}, a.callOpts)
	return (*AuthUserDeleteResponse)(resp), err
}

func (a *authClient) UserChangePassword(ctx context.Context, name string, password string) (*AuthUserChangePasswordResponse, error) {
	req := &pb.AuthUserChangePasswordRequest{Name: name, Password: password}
	resp, err := invoke(ctx, a.remote.UserChangePassword, req, a.callOpts)
	return (*AuthUserChangePasswordResponse)(resp), err
}

func (a *authClient) UserGrantRole(ctx context.Context, user string, role string) (*AuthUserGrantRoleResponse, error) {
	req := &pb.AuthUserGrantRoleRequest{User: user, Role: role}
	resp, err := invoke(ctx, a.remote.UserGrantRole, req, a.callOpts)
	return (*AuthUserGrantRoleResponse)(resp), err
}

func (a *authClient) UserGet(ctx context.Context, name string) (*AuthUserGetResponse, error) {
	resp, err := invoke(ctx, a.remote.UserGet, &pb.AuthUserGetRequest{Name: name}, a.callOpts)
	return (*AuthUserGetResponse)(resp), err
}

func (a *authClient) UserList(ctx context.Context) (*AuthUserListResponse, error) {
	resp, err := invoke(ctx, a.remote.UserList, &pb.AuthUserListRequest{}, a.callOpts)
	return (*AuthUserListResponse)(resp), err
}

func (a *authClient) UserRevokeRole(ctx context.Context, name string, role string) (*AuthUserRevokeRoleResponse, error) {
	req := &pb.AuthUserRevokeRoleRequest{Name: name, Role: role}
	resp, err := invoke(ctx, a.remote.UserRevokeRole, req, a.callOpts)
	return (*AuthUserRevokeRoleResponse)(resp), err
}

func (a *authClient) RoleAdd(ctx context.Context, name string) (*AuthRoleAddResponse, error) {
	resp, err := invoke(ctx, a.remote.RoleAdd, &pb.AuthRoleAddRequest{Name: name}, a.callOpts)
	return (*AuthRoleAddResponse)(resp), err
}

func (a *authClient) RoleGrantPermission(ctx context.Context, name string, key, rangeEnd string, permType PermissionType) (*AuthRoleGrantPermissionResponse, error) {
	req := &pb.AuthRoleGrantPermissionRequest{Name: name, Perm: &authpb.Permission{
		PermType: authpb.Permission_Type(permType),
		Key:      []byte(key),
		RangeEnd: []byte(rangeEnd),
	}}
	resp, err := invoke(ctx, a.remote.RoleGrantPermission, req, a.callOpts)
	return (*AuthRoleGrantPermissionResponse)(resp), err
}

func (a *authClient) RoleGet(ctx context.Context, role string) (*AuthRoleGetResponse, error) {
	resp, err := invoke(ctx, a.remote.RoleGet, &pb.AuthRoleGetRequest{Role: role}, a.callOpts)
	return (*AuthRoleGetResponse)(resp), err
}

func (a *authClient) RoleList(ctx context.Context) (*AuthRoleListResponse, error) {
	resp, err := invoke(ctx, a.remote.RoleList, &pb.AuthRoleListRequest{}, a.callOpts)
	return (*AuthRoleListResponse)(resp), err
}

func (a *authClient) RoleRevokePermission(ctx context.Context, role string, key, rangeEnd string) (*AuthRoleRevokePermissionResponse, error) {
	req := &pb.AuthRoleRevokePermissionRequest{Role: role, Key: []byte(key), RangeEnd: []byte(rangeEnd)}
	resp, err := invoke(ctx, a.remote.RoleRevokePermission, req, a.callOpts)
	return (*AuthRoleRevokePermissionResponse)(resp), err
}

func (a *authClient) RoleDelete(ctx context.Context, role string) (*AuthRoleDeleteResponse, error) {
	resp, err := invoke(ctx, a.remote.RoleDelete, &pb.AuthRoleDeleteRequest{Role: role}, a.callOpts)
	return (*AuthRoleDeleteResponse)(resp), err
}
