package behaviours

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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

func authRoles(ctx context.Context, s Site, _ *transcript.Log) {
	enable(ctx, s)
	alice := s.as("alice")
	ok(alice.Put(ctx, "/alice/a", "1"))
	want(ok(alice.Get(ctx, "/alice/", clientv3.WithPrefix())).Count == 1, "the key is not there")
	_, err := alice.Put(ctx, "/bob/a", "1")
	want(errors.Is(err, rpctypes.ErrPermissionDenied), "not allowed: %v", err)
	_, err = s.client().Get(ctx, "/alice/a")
	want(errors.Is(err, rpctypes.ErrUserEmpty), "without a user: %v", err)
	c, err := s.login("alice", "wrong")
	if err == nil {
		_, err = c.Get(ctx, "/alice/a")
	}
	want(errors.Is(err, rpctypes.ErrAuthFailed), "a wrong password: %v", err)
}

func watchDenied(ctx context.Context, alice *clientv3.Client, _ func()) {
	allowed := created(ctx, alice, "/alice/a")
	resp := next(alice.Watch(ctx, "/bob/a"), "a watch that is not allowed")
	want(resp.Canceled && resp.Err() != nil, "got %+v", resp)
	create(ctx, alice, "/alice/a", "1")
	events(allowed, 1)
}

func authLater(ctx context.Context, s Site, _ *transcript.Log) {
	alice := s.as("alice")
	ok(alice.Put(ctx, "/alice/a", "1"))
	enable(ctx, s)
	ok(alice.Put(ctx, "/alice/a", "2"))
	ok(alice.Get(ctx, "/alice/a"))
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

func tlsNone(ctx context.Context, s Site, _ *transcript.Log) {
	cfg := s.config()
	cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.TLS.RootCAs, ServerName: cfg.TLS.ServerName}
	inner, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, err := ok(clientv3.New(cfg)).Get(inner, "/tls/a")
	want(err != nil, "served without a certificate")
}

// tlsUser uses the certificate's common name, root, in place of a token.
func tlsUser(ctx context.Context, s Site, _ *transcript.Log) {
	enable(ctx, s)
	opened(ctx, s.client(), func() {})
}
