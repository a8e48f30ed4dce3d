package behaviours

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// enable switches authentication on, with users root and alice, who may do everything below /alice/.
func enable(ctx context.Context, s Site) {
	c := s.client()
	for _, user := range []string{"root", "alice"} {
		ok(c.UserAdd(ctx, user, user))
		ok(c.RoleAdd(ctx, user))
		ok(c.UserGrantRole(ctx, user, user))
	}
	ok(c.RoleGrantPermission(ctx, "alice", "/alice/", clientv3.GetPrefixRangeEnd("/alice/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	ok(c.AuthEnable(ctx))
	must(c.Close())
}

func authLaterWatch(ctx context.Context, s Site, _ *transcript.Log) {
	watchSwitched(ctx, s.as("alice"), func() { enable(ctx, s) })
}

func authSwitchedOff(ctx context.Context, s Site, _ *transcript.Log) {
	enable(ctx, s)
	root := s.as("root")
	watchSwitched(ctx, root, func() { ok(root.AuthDisable(ctx)) })
}

// watchSwitched opens a watch before authentication is switched on or off, and another one after it.
func watchSwitched(ctx context.Context, c *clientv3.Client, change func()) {
	watch := created(ctx, c, "/alice/", clientv3.WithPrefix())
	change()
	ok(c.Put(ctx, "/alice/a", "1"))
	events(watch, 1)
	opened(ctx, c, func() {})
	events(watch, 1)
}

// tlsUser uses the certificate's common name, root, in place of a token.
func tlsUser(ctx context.Context, s Site, _ *transcript.Log) {
	enable(ctx, s)
	opened(ctx, s.client(), func() {})
}
