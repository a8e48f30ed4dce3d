package clientv3

import (
	"context"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

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
