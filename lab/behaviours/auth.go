package behaviours

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// authentication manages users, enables authentication and acts as them.
func authentication(ctx context.Context, at Site, log *transcript.Log) {
	c := at.client()
	defer end(c, log)
	authOff(ctx, c, log)
	authOn(ctx, at, log)
}

// authOff manages users and roles before authentication is enabled: each change with success and
// with an error. What a server answers to other requests is compared in the files protocol_*.
func authOff(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	log.Step("status")(c.AuthStatus(ctx))
	log.Step("authenticate while disabled")(c.Authenticate(ctx, "root", "pass"))
	log.Step("enable without root")(c.AuthEnable(ctx))
	log.Step("disable while disabled")(c.AuthDisable(ctx))
	users(ctx, c, log)
	roles(ctx, c, log)
	grants(ctx, c, log)
}

func users(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	log.Step("add user")(c.UserAdd(ctx, "alice", "secret"))
	log.Step("add user again")(c.UserAdd(ctx, "alice", "secret"))
	log.Step("add user who needs none")(c.UserAddWithOptions(ctx, "bob", "", &clientv3.UserAddOptions{NoPassword: true}))
	log.Step("add user with options")(c.UserAddWithOptions(ctx, "carol", "pw", &clientv3.UserAddOptions{}))
	log.Step("change password")(c.UserChangePassword(ctx, "alice", "changed"))
	log.Step("change password of an unknown user")(c.UserChangePassword(ctx, "nobody", "changed"))
	log.Step("add user with a long password")(c.UserAdd(ctx, "long", strings.Repeat("x", 73)))
	log.Step("get user")(c.UserGet(ctx, "alice"))
	log.Step("get unknown user")(c.UserGet(ctx, "nobody"))
	log.Step("list users")(c.UserList(ctx))
	log.Step("delete user")(c.UserDelete(ctx, "carol"))
	log.Step("delete unknown user")(c.UserDelete(ctx, "nobody"))
}

func roles(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	log.Step("add role")(c.RoleAdd(ctx, "reader"))
	log.Step("add role again")(c.RoleAdd(ctx, "reader"))
	log.Step("grant permission on a key")(c.RoleGrantPermission(ctx, "reader", "k", "", clientv3.PermissionType(clientv3.PermRead)))
	log.Step("grant permission on a range")(c.RoleGrantPermission(ctx, "reader", "a/", clientv3.GetPrefixRangeEnd("a/"),
		clientv3.PermissionType(clientv3.PermReadWrite)))
	log.Step("grant permission to an unknown role")(c.RoleGrantPermission(ctx, "nobody", "k", "", clientv3.PermissionType(clientv3.PermRead)))
	log.Step("get role")(c.RoleGet(ctx, "reader"))
	log.Step("get unknown role")(c.RoleGet(ctx, "nobody"))
	log.Step("list roles")(c.RoleList(ctx))
	log.Step("revoke permission")(c.RoleRevokePermission(ctx, "reader", "k", ""))
	log.Step("revoke permission that is not there")(c.RoleRevokePermission(ctx, "reader", "k", ""))
	log.Step("delete unknown role")(c.RoleDelete(ctx, "nobody"))
}

func grants(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	log.Step("grant role")(c.UserGrantRole(ctx, "alice", "reader"))
	log.Step("grant unknown role")(c.UserGrantRole(ctx, "alice", "nobody"))
	log.Step("revoke role")(c.UserRevokeRole(ctx, "alice", "reader"))
	log.Step("revoke role again")(c.UserRevokeRole(ctx, "alice", "reader"))
	log.Step("add role to delete")(c.RoleAdd(ctx, "gone"))
	log.Step("delete role")(c.RoleDelete(ctx, "gone"))
	log.Step("grant role for later")(c.UserGrantRole(ctx, "alice", "reader"))

	log.Step("add root without a role")(c.UserAdd(ctx, "root", "rootpass"))
	log.Step("enable without the root role")(c.AuthEnable(ctx))
	log.Step("add root role")(c.RoleAdd(ctx, "root"))
	log.Step("grant root role")(c.UserGrantRole(ctx, "root", "root"))
}
