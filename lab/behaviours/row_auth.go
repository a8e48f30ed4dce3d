package behaviours

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/servers/site"
)

var logins = []Behaviour{
	on(auth, "authentication", "roles", asAlice(authRoles)),
	on(auth, "authentication", "a wrong password", authWrong),
	on(tokens, "authentication", "tokens expire under calls", asAlice(tokensUnderCalls)),
	on(tokens, "authentication", "tokens expire under a watch", asAlice(tokensUnderWatch)),
	on(tokens, "authentication", "tokens expire before a watch", asAlice(tokensBeforeWatch)),
	on(tokens, "authentication", "tokens expire under a keepalive", asAlice(tokensUnderLease)),
	on(tokens, "authentication", "tokens expire under a lock", tokensUnderLock),
	on(auth, "authentication", "the server restarts under calls", asAlice(restartUnderCalls)),
	on(auth, "authentication", "the server restarts under a watch", asAlice(restartUnderWatch)),
	on(auth, "authentication", "the server restarts under a keepalive", asAlice(leaseAcrossRestart)),
	on(tokens, "authentication", "the connection breaks under a watch after the token's end", asAlice(breakUnderWatch)),
	on(auth, "authentication", "a watch that is not allowed ends", asAlice(watchDenied)),
	on(auth, "authentication", "switched on later", authLater),
	on(auth, "authentication", "switched on later, with a watch", authLaterWatch),
	on(auth, "authentication", "switched off", authSwitchedOff),
	on(secure, "TLS", "client certificates", tlsCertificates),
	on(secure, "TLS", "no certificate", tlsNone),
	on(secure, "TLS", "the certificate is the user", tlsUser),
}

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

func authRoles(ctx context.Context, s Site, alice *clientv3.Client) {
	ok(alice.Put(ctx, "/alice/a", "1"))
	want(ok(alice.Get(ctx, "/alice/", clientv3.WithPrefix())).Count == 1, "the key is not there")
	_, err := alice.Put(ctx, "/bob/a", "1")
	want(errors.Is(err, rpctypes.ErrPermissionDenied), "not allowed: %v", err)
	ok(s.as("root").Put(ctx, "/bob/a", "1"))
	_, err = s.client().Get(ctx, "/alice/a")
	want(errors.Is(err, rpctypes.ErrUserEmpty), "without a user: %v", err)
}

func authWrong(ctx context.Context, s Site) {
	enable(ctx, s)
	c, err := s.login("alice", "wrong")
	if err == nil {
		_, err = c.Get(ctx, "/alice/a")
	}
	want(errors.Is(err, rpctypes.ErrAuthFailed), "got %v", err)
}

// expired is when a token of a server of setup Tokens is no longer valid.
const expired = 3500 * time.Millisecond

func tokensUnderCalls(ctx context.Context, _ Site, alice *clientv3.Client) {
	for begin := time.Now(); time.Since(begin) < 2*expired; pause(ctx, 200*time.Millisecond) {
		ok(alice.Put(ctx, "/alice/a", "1"))
		ok(alice.Get(ctx, "/alice/a"))
	}
	pause(ctx, expired)
	ok(alice.Put(ctx, "/alice/a", "2"))
}

func tokensUnderWatch(ctx context.Context, _ Site, alice *clientv3.Client) {
	watch := created(ctx, alice, "/alice/a")
	for range 3 {
		ok(alice.Put(ctx, "/alice/a", "1"))
		events(ctx, watch, 1)
		pause(ctx, expired)
	}
}

func tokensBeforeWatch(ctx context.Context, _ Site, alice *clientv3.Client) {
	ok(alice.Put(ctx, "/alice/a", "1"))
	pause(ctx, expired)
	watch := created(ctx, alice, "/alice/a")
	pause(ctx, expired)
	second := created(ctx, alice, "/alice/a")
	ok(alice.Put(ctx, "/alice/a", "1"))
	events(ctx, watch, 1)
	events(ctx, second, 1)
}

// watchAcross opens a watch before something happens, and another one after it.
func watchAcross(ctx context.Context, c *clientv3.Client, event func()) {
	watch := created(ctx, c, "/alice/a")
	event()
	ok(c.Put(ctx, "/alice/a", "1"))
	events(ctx, watch, 1)
	second := created(ctx, c, "/alice/a")
	ok(c.Put(ctx, "/alice/a", "2"))
	events(ctx, second, 1)
}

func tokensUnderLease(ctx context.Context, _ Site, alice *clientv3.Client) {
	lease := ok(alice.Grant(ctx, 5))
	ok(alice.Put(ctx, "/alice/a", "1", clientv3.WithLease(lease.ID)))
	kept := ok(alice.KeepAlive(ctx, lease.ID))
	go func() {
		for range kept { // read, so that none is dropped
		}
	}()
	pause(ctx, 2*expired)
	want(ok(alice.Get(ctx, "/alice/a")).Count == 1, "the lease is gone")
	ok(alice.KeepAliveOnce(ctx, lease.ID))
}

func tokensUnderLock(ctx context.Context, s Site) {
	enable(ctx, s)
	lockAcross(ctx, s.as("root"), s.as("root"), func() { pause(ctx, expired) })
}

func restartUnderCalls(ctx context.Context, s Site, alice *clientv3.Client) {
	for range 2 {
		ok(alice.Put(ctx, "/alice/a", "1"))
		s.do(ctx, site.Kill, site.Restart)
		ok(alice.Get(ctx, "/alice/a"))
	}
}

func restartUnderWatch(ctx context.Context, s Site, alice *clientv3.Client) {
	watch, quiet := created(ctx, alice, "/alice/a"), created(ctx, alice, "/alice/a")
	for range 2 {
		s.do(ctx, site.Kill, site.Restart)
		putIsSeen(ctx, alice, "/alice/a", watch, "after a restart")
	}
	for seen := 0; seen < 2; { // of a watch that was not read meanwhile
		resp := next(ctx, quiet, "after two restarts")
		must(resp.Err())
		seen += len(resp.Events)
	}
}

func breakUnderWatch(ctx context.Context, s Site, alice *clientv3.Client) {
	watch := created(ctx, alice, "/alice/a")
	pause(ctx, expired)
	s.do(ctx, site.Cut, site.Heal)
	putIsSeen(ctx, alice, "/alice/a", watch, "after the break")
}

// putIsSeen puts to a key that is watched, as soon as that works, and waits for the event.
func putIsSeen(ctx context.Context, client *clientv3.Client, key string, watch clientv3.WatchChan, when string) {
	until(ctx, func(ctx context.Context) error {
		_, err := client.Put(ctx, key, "1")
		return err
	})
	resp := next(ctx, watch, when)
	must(resp.Err())
	want(len(resp.Events) > 0, "got %+v", resp)
}

func watchDenied(ctx context.Context, _ Site, alice *clientv3.Client) {
	allowed := created(ctx, alice, "/alice/a")
	resp := next(ctx, alice.Watch(ctx, "/bob/a"), "a watch that is not allowed")
	want(resp.Canceled && resp.Err() != nil, "got %+v", resp)
	ok(alice.Put(ctx, "/alice/a", "1"))
	events(ctx, allowed, 1)
}

func authLater(ctx context.Context, s Site) {
	alice := s.as("alice")
	ok(alice.Put(ctx, "/alice/a", "1"))
	enable(ctx, s)
	ok(alice.Put(ctx, "/alice/a", "2"))
	ok(alice.Get(ctx, "/alice/a"))
}

func authLaterWatch(ctx context.Context, s Site) {
	watchAcross(ctx, s.as("alice"), func() { enable(ctx, s) })
}

func authSwitchedOff(ctx context.Context, s Site) {
	enable(ctx, s)
	root := s.as("root")
	watchAcross(ctx, root, func() { ok(root.AuthDisable(ctx)) })
}

func tlsCertificates(ctx context.Context, s Site) {
	c := s.client()
	watch := created(ctx, c, "/tls/a")
	create(ctx, c, "/tls/a", "1")
	events(ctx, watch, 1)
	s.do(ctx, site.Kill, site.Restart)
	putIsSeen(ctx, c, "/tls/a", watch, "after a restart")
}

func tlsNone(ctx context.Context, s Site) {
	cfg := s.config()
	cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.TLS.RootCAs, ServerName: cfg.TLS.ServerName}
	inner, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, err := ok(clientv3.New(cfg)).Get(inner, "/tls/a")
	want(err != nil, "served without a certificate")
}

// tlsUser uses the certificate's common name, root, in place of a token.
func tlsUser(ctx context.Context, s Site) {
	enable(ctx, s)
	c := s.client()
	watch := created(ctx, c, "/tls/a")
	ok(c.Put(ctx, "/tls/a", "1"))
	events(ctx, watch, 1)
}
