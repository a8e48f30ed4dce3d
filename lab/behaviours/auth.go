package behaviours

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

const (
	read      = clientv3.PermissionType(clientv3.PermRead)
	readWrite = clientv3.PermissionType(clientv3.PermReadWrite)
)

// authentication manages users, enables authentication, acts as them, and disables it in the end. The files protocol_* compare
// the answers of servers to other requests.
func authentication(ctx context.Context, at Site, log *transcript.Log) {
	anonymous := at.client()
	defer end(anonymous, log)
	users(ctx, anonymous, log)
	early := ok(at.login("alice", "changed")) // before it is enabled: no token, no error
	defer end(early, log)
	log.Step("before: put")(early.Put(ctx, "b/1", "1"))

	ok(anonymous.AuthEnable(ctx))
	root := ok(at.login("root", "rootpass"))
	defer end(root, log)
	defer func() { ok(root.AuthDisable(ctx)) }()
	log.Step("status")(root.AuthStatus(ctx))
	log.Step("early: put what is allowed")(early.Put(ctx, "a/early", "1"))
	log.Step("early: put what is denied")(early.Put(ctx, "b/early", "1"))
	for _, user := range []string{"alice", "nobody", "bob"} {
		c, err := at.login(user, "wrong")
		log.Error("new as "+user, err)
		log.Value("new as "+user+": client", c != nil)
	}
	eachCall(ctx, anonymous, log, "anonymous")
	log.Step("anonymous: disable")(anonymous.AuthDisable(ctx))
	alice := ok(at.login("alice", "changed"))
	defer end(alice, log)
	asUser(ctx, alice, log)
	watchesAsUser(ctx, anonymous, alice, log)
	keepAlivesAsUser(ctx, anonymous, alice, log)
	changes(ctx, at, log, root, alice)
	eachCall(ctx, root, log, "root")
	conn := ok(root.Dial(root.Endpoints()[0]))
	defer func() { log.Error("end of the dialled connection", conn.Close()) }()
	log.Step("root: dialled range")(pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte("core")}))
}

// users calls each method once before authentication is enabled.
func users(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	log.Step("authenticate while disabled")(c.Authenticate(ctx, "root", "pass"))
	log.Step("enable without root")(c.AuthEnable(ctx))
	log.Step("add user")(c.UserAdd(ctx, "alice", "secret"))
	log.Step("add user who needs none")(c.UserAddWithOptions(ctx, "bob", "", &clientv3.UserAddOptions{NoPassword: true}))
	log.Step("change password")(c.UserChangePassword(ctx, "alice", "changed"))
	log.Step("add role")(c.RoleAdd(ctx, "reader"))
	log.Step("grant permission on a key")(c.RoleGrantPermission(ctx, "reader", "k", "", read))
	log.Step("grant permission on a range")(c.RoleGrantPermission(ctx, "reader", "a/", clientv3.GetPrefixRangeEnd("a/"), readWrite))
	log.Step("revoke permission")(c.RoleRevokePermission(ctx, "reader", "k", ""))
	log.Step("get role")(c.RoleGet(ctx, "reader"))
	for _, user := range []string{"root", "carol"} {
		log.Step("add user " + user)(c.UserAdd(ctx, user, "rootpass"))
		log.Step("add role " + user)(c.RoleAdd(ctx, user))
		log.Step("grant role " + user)(c.UserGrantRole(ctx, user, user))
	}
	log.Step("revoke role")(c.UserRevokeRole(ctx, "carol", "carol"))
	log.Step("delete role")(c.RoleDelete(ctx, "carol"))
	log.Step("delete user")(c.UserDelete(ctx, "carol"))
	log.Step("grant role")(c.UserGrantRole(ctx, "alice", "reader"))
	log.Step("get user")(c.UserGet(ctx, "alice"))
	log.Step("list users")(c.UserList(ctx))
	log.Step("list roles")(c.RoleList(ctx))
}

func asUser(ctx context.Context, alice *clientv3.Client, log *transcript.Log) {
	log.Step("alice: put")(alice.Put(ctx, "a/1", "1"))
	log.Step("alice: stream")(gather(alice.GetStream(ctx, "a/", clientv3.WithPrefix())))
	log.Step("alice: denied put")(alice.Put(ctx, "b/1", "1"))
	log.Step("alice: denied get")(alice.Get(ctx, "b/1"))
	log.Step("alice: denied stream")(gather(alice.GetStream(ctx, "b/", clientv3.WithPrefix())))
	log.Step("alice: denied txn")(alice.Txn(ctx).Then(clientv3.OpGet("a/1"), clientv3.OpPut("b/1", "1")).Commit())
	log.Step("alice: denied user add")(alice.UserAdd(ctx, "dave", "pw"))
	log.Step("alice: denied snapshot")(whole(alice.Snapshot(ctx)))
	log.Step("alice: denied defragment")(alice.Defragment(ctx, alice.Endpoints()[0]))
	raw := pb.NewKVClient(alice.ActiveConnection())
	log.Step("alice: raw denied range")(raw.Range(ctx, &pb.RangeRequest{Key: []byte("b/1")}))
}

// watchesAsUser watches keys that a user may read and keys that it may not. A refused watch does not affect others.
func watchesAsUser(ctx context.Context, anonymous, alice *clientv3.Client, log *transcript.Log) {
	watching(ctx, alice, log, "alice: watch", "a/", []clientv3.OpOption{clientv3.WithPrefix()}, func(allowed clientv3.WatchChan) {
		putAll(ctx, alice, "watched", "a/1")
		receive(log, "alice: watch", allowed)
		watchesEnd(ctx, alice, log, "a/1", allowed, []request{
			{"alice: denied watch of a key", "b/1", nil},
			{"alice: denied watch of a created", "b/1", []clientv3.OpOption{clientv3.WithCreatedNotify()}},
		})
	})
	refused := anonymous.Watch(ctx, "a/1")
	receive(log, "anonymous: watch", refused)
	receive(log, "anonymous: watch: end", refused)
}

// keepAlivesAsUser keeps a lease alive as the user whose key it has, and without a user.
func keepAlivesAsUser(ctx context.Context, anonymous, alice *clientv3.Client, log *transcript.Log) {
	id := ok(alice.Grant(ctx, 3600)).ID
	ok(alice.Put(ctx, "a/lease", "1", clientv3.WithLease(id)))
	for i, c := range []*clientv3.Client{alice, anonymous} {
		name := []string{"alice", "anonymous"}[i]
		log.Step(name + ": keep alive once")(c.KeepAliveOnce(ctx, id))
		ctx, cancel := context.WithCancel(ctx)
		responses := ok(c.KeepAlive(ctx, id))
		renewed(log, name+": keep alive", responses)
		cancel()
		ended(log, name+": keep alive: end", responses)
	}
	log.Step("alice: revoke")(alice.Revoke(ctx, id))
}

// changes alters permissions while a client holds a token: its next call still works.
func changes(ctx context.Context, at Site, log *transcript.Log, root, alice *clientv3.Client) {
	log.Step("root: grant permission")(root.RoleGrantPermission(ctx, "reader", "b/1", "", read))
	log.Step("alice: get after the change")(alice.Get(ctx, "b/1"))
	log.Step("root: revoke permission")(root.RoleRevokePermission(ctx, "reader", "b/1", ""))
	log.Step("alice: put after the change")(alice.Put(ctx, "a/1", "2"))
	log.Step("root: change password")(root.UserChangePassword(ctx, "alice", "new"))
	log.Step("alice: get with the old password")(alice.Get(ctx, "a/1"))
	alice.Password = "new"
	withDeadline(ctx, 5*time.Second, func(ctx context.Context) { log.Step("alice: get with the new password")(alice.Get(ctx, "a/1")) })

	cfg := at.config()
	cfg.Token = ok(root.Authenticate(ctx, "alice", "new")).Token
	holder := ok(clientv3.New(cfg))
	defer end(holder, log)
	log.Step("token: put")(holder.Put(ctx, "a/token", "1"))
	log.Step("token: denied put")(holder.Put(ctx, "c/token", "1"))
	cfg.Token = "wrong"
	wrongToken := ok(clientv3.New(cfg))
	defer end(wrongToken, log)
	withDeadline(ctx, 20*time.Second, func(ctx context.Context) { log.Step("wrong token: get")(wrongToken.Get(ctx, "a/1")) })
	withDeadline(ctx, 20*time.Second, func(ctx context.Context) { log.Step("wrong token: put")(wrongToken.Put(ctx, "a/1", "1")) })
}
