package fakeetcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/auth"
)

var authService = map[string]service{
	"AuthEnable":   authMethod(admins, (*auth.Store).Enable),
	"AuthDisable":  authMethod(admins, (*auth.Store).Disable),
	"AuthStatus":   authMethod(checked, (*auth.Store).Status),
	"Authenticate": authMethod(open, (*auth.Store).Authenticate),

	"UserAdd":            authMethod(admins, (*auth.Store).UserAdd),
	"UserGet":            unary(checked, userGet),
	"UserList":           authMethod(admins, (*auth.Store).UserList),
	"UserDelete":         authMethod(admins, (*auth.Store).UserDelete),
	"UserChangePassword": authMethod(admins, (*auth.Store).UserChangePassword),
	"UserGrantRole":      authMethod(admins, (*auth.Store).UserGrantRole),
	"UserRevokeRole":     authMethod(admins, (*auth.Store).UserRevokeRole),

	"RoleAdd":              authMethod(admins, (*auth.Store).RoleAdd),
	"RoleGet":              unary(checked, roleGet),
	"RoleList":             authMethod(admins, (*auth.Store).RoleList),
	"RoleDelete":           authMethod(admins, (*auth.Store).RoleDelete),
	"RoleGrantPermission":  authMethod(admins, (*auth.Store).RoleGrantPermission),
	"RoleRevokePermission": authMethod(admins, (*auth.Store).RoleRevokePermission),
}

// authMethod makes a service from a method of the auth store. Even reads go through
// raft.
func authMethod[Q, R proto.Message](a access, f func(*auth.Store, Q) (R, error)) service {
	return proposed(a, func(c *Call, req Q) (R, error) { return f(c.cluster.auth, req) })
}

// userGet returns a user to administrators and to the user itself.
func userGet(c *Call, r *pb.AuthUserGetRequest) (*pb.AuthUserGetResponse, error) {
	user, err := c.user()
	if err != nil {
		return nil, err
	}
	if err := c.cluster.auth.RequireAdmin(user); err != nil && user != r.Name {
		return nil, err
	}
	return c.cluster.auth.UserGet(r)
}

// roleGet returns a role to administrators and to users that have it.
func roleGet(c *Call, r *pb.AuthRoleGetRequest) (*pb.AuthRoleGetResponse, error) {
	user, err := c.user()
	if err != nil {
		return nil, err
	}
	if err := c.cluster.auth.RequireAdmin(user); err != nil && !c.cluster.auth.HasRole(user, r.Role) {
		return nil, err
	}
	return c.cluster.auth.RoleGet(r)
}
