package fakeetcd

import (
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/auth"
)

var authService = map[string]service{
	"AuthEnable":   authMethod(admins, (*auth.Store).Enable),
	"AuthDisable":  authMethod(admins, (*auth.Store).Disable),
	"AuthStatus":   authMethod(checked, (*auth.Store).Status),
	"Authenticate": authMethod(open, (*auth.Store).Authenticate),

	"UserAdd":       authMethod(admins, (*auth.Store).UserAdd),
	"UserList":      authMethod(admins, (*auth.Store).UserList),
	"UserGrantRole": authMethod(admins, (*auth.Store).UserGrantRole),

	"RoleAdd":             authMethod(admins, (*auth.Store).RoleAdd),
	"RoleGrantPermission": authMethod(admins, (*auth.Store).RoleGrantPermission),
}

// authMethod makes a service from a method of the auth store. Even reads go through
// raft.
func authMethod[Q, R proto.Message](a access, f func(*auth.Store, Q) (R, error)) service {
	return proposed(a, func(c *Call, req Q) (R, error) { return f(c.cluster.auth, req) })
}
