package behaviours

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quorate "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/lab/servers/site"
)

// across uses a client before, during and after an event at its server.
func across(use func(ctx context.Context, c *clientv3.Client, happen func()), happen func(context.Context, Site)) runner {
	return func(ctx context.Context, s Site, _ *transcript.Log) {
		use(ctx, s.client(), func() { happen(ctx, s) })
	}
}

// asAlice does the same as the user alice, with authentication.
func asAlice(use func(ctx context.Context, c *clientv3.Client, happen func()), happen func(context.Context, Site)) runner {
	return func(ctx context.Context, s Site, _ *transcript.Log) {
		enable(ctx, s)
		use(ctx, s.as("alice"), func() { happen(ctx, s) })
	}
}

// expired is longer than a server of setup Tokens accepts a token.
const expired = 3500 * time.Millisecond

// The events.
func nothing(context.Context, Site)       {}
func expire(ctx context.Context, _ Site)  { must(pause.For(ctx, expired)) }
func restart(ctx context.Context, s Site) { s.do(ctx, site.Kill, site.Restart) }

func expireAndBreak(ctx context.Context, s Site) {
	expire(ctx, s)
	s.do(ctx, site.Cut, site.Heal)
}

// calls puts and gets a key. Nothing is sent between an event and the first call after it.
func calls(ctx context.Context, c *clientv3.Client, happen func()) {
	for range 2 {
		ok(c.Put(ctx, "/alice/calls", "1"))
		happen()
		ok(c.Get(ctx, "/alice/calls"))
	}
	happen()
	ok(c.Put(ctx, "/alice/calls", "2"))
}

// watched keeps two watches open through the events. One of them is read only at the end.
func watched(ctx context.Context, c *clientv3.Client, happen func()) {
	const times = 2
	watch, quiet := created(ctx, c, "/alice/watched/", clientv3.WithPrefix()), created(ctx, c, "/alice/watched/", clientv3.WithPrefix())
	for i := range times {
		happen()
		key := fmt.Sprintf("/alice/watched/%d", i)
		untilRead(ctx, c, key)
		create(ctx, c, key, "1")
		events(watch, 1)
	}
	events(quiet, times)
}

// opened opens a watch after each event.
func opened(ctx context.Context, c *clientv3.Client, happen func()) {
	ok(c.Get(ctx, "/alice/opened"))
	watches := make([]clientv3.WatchChan, 2)
	for i := range watches {
		happen()
		watches[i] = created(ctx, c, "/alice/opened")
	}
	create(ctx, c, "/alice/opened", "1")
	for _, watch := range watches {
		events(watch, 1)
	}
}

// kept keeps a lease alive for longer than its TTL.
func kept(ctx context.Context, c *clientv3.Client, happen func()) {
	lease := ok(c.Grant(ctx, 6)) // a busy machine takes its time to restart a server
	create(ctx, c, "/alice/kept", "1", clientv3.WithLease(lease.ID))
	renewals := ok(c.KeepAlive(ctx, lease.ID))
	happen()
	n := 0
	for begin := time.Now(); time.Since(begin) < 8*time.Second; n++ {
		next(renewals, "renewals")
	}
	want(n > 1, "%d renewals", n)
	want(ok(c.Get(ctx, "/alice/kept")).Count == 1, "the key is gone")
}

// locked holds a lock while another session waits for it.
func locked(ctx context.Context, c *clientv3.Client, happen func()) {
	holder := concurrency.NewMutex(session(c), "/alice/locked/")
	waiter := concurrency.NewMutex(session(c), "/alice/locked/")
	must(holder.Lock(ctx))
	waited := make(chan error, 1)
	go func() { waited <- waiter.Lock(ctx) }()
	happen()
	select {
	case err := <-waited:
		fail("two have the lock: %v", err)
	default:
	}
	until(ctx, holder.Unlock)
	must(<-waited)
	until(ctx, waiter.Unlock)
}

func session(c *clientv3.Client) *concurrency.Session {
	return ok(concurrency.NewSession(c, concurrency.WithTTL(10)))
}

// until repeats a call until it succeeds, with a bound for each try.
func until(ctx context.Context, call func(context.Context) error) {
	for {
		inner, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := call(inner)
		cancel()
		if err == nil {
			return
		}
		want(ctx.Err() == nil, "it does not work again: %v", err)
		must(pause.For(ctx, 20*time.Millisecond))
	}
}

// untilRead repeats a get until the server answers.
func untilRead(ctx context.Context, c *clientv3.Client, key string) {
	until(ctx, func(ctx context.Context) error {
		_, err := c.Get(ctx, key)
		return err
	})
}

// enable switches authentication on, with users root and alice, who may do everything below /alice/.
func enable(ctx context.Context, s Site) {
	c := s.client()
	for _, user := range []string{"root", "alice"} {
		ok(c.UserAdd(ctx, user, user))
		ok(c.RoleAdd(ctx, user))
		ok(c.UserGrantRole(ctx, user, user))
	}
	ok(c.RoleGrantPermission(ctx, "alice", "/alice/", clientv3.GetPrefixRangeEnd("/alice/"), readWrite))
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

func largeValues(ctx context.Context, c *clientv3.Client) {
	const n = 5
	watch := created(ctx, c, "/large/", clientv3.WithPrefix())
	value := strings.Repeat("x", 1<<20)
	first := create(ctx, c, "/large/0", value)
	for i := 1; i < n; i++ {
		create(ctx, c, fmt.Sprintf("/large/%d", i), value)
	}
	got := ok(c.Get(ctx, "/large/", clientv3.WithPrefix()))
	want(len(got.Kvs) == n && string(got.Kvs[n-1].Value) == value, "got %d keys", len(got.Kvs))
	past := c.Watch(ctx, "/large/", clientv3.WithPrefix(), clientv3.WithRev(first), clientv3.WithFragment())
	for _, watch := range []clientv3.WatchChan{watch, past} {
		want(string(events(watch, n)[n-1].Kv.Value) == value, "another value in the event")
	}
}

func manyKeys(ctx context.Context, c *clientv3.Client) {
	const writers, total, page = 16, 10_000, 1_000
	watch := created(ctx, c, "/many/", clientv3.WithPrefix())
	each(writers, func(w int) {
		for i := w; i < total; i += writers {
			create(ctx, c, fmt.Sprintf("/many/%05d", i), "value")
		}
	})
	first := ok(c.Get(ctx, "/many/", clientv3.WithPrefix(), clientv3.WithLimit(page)))
	want(first.Count == total, "count %d", first.Count)
	got, more := first.Kvs, first.More
	for more {
		resp := ok(c.Get(ctx, string(got[len(got)-1].Key)+"\x00", clientv3.WithRange(clientv3.GetPrefixRangeEnd("/many/")),
			clientv3.WithLimit(page), clientv3.WithRev(first.Header.Revision)))
		got, more = append(got, resp.Kvs...), resp.More
	}
	want(len(got) == total, "%d keys in pages", len(got))
	for i, kv := range got {
		want(string(kv.Key) == fmt.Sprintf("/many/%05d", i), "key %d is %s", i, kv.Key)
	}
	seen := make(map[string]bool)
	for _, e := range events(watch, total) {
		seen[string(e.Kv.Key)] = true
	}
	want(len(seen) == total, "events of %d keys", len(seen))
}

// progress requests progress, and waits for notifications.
func progress(ctx context.Context, c *clientv3.Client) {
	watch := created(ctx, c, "/progress/a")
	rev := create(ctx, c, "/progress/a", "1")
	events(watch, 1)
	for reached := false; !reached; {
		must(c.RequestProgress(ctx))
		select {
		case resp := <-watch:
			must(resp.Err())
			reached = resp.IsProgressNotify() && resp.Header.Revision >= rev
		case <-time.After(100 * time.Millisecond): // a server need not answer before its watchers are synchronized
			must(ctx.Err())
		}
	}
	notified := created(ctx, c, "/progress/b", clientv3.WithProgressNotify())
	rev = create(ctx, c, "/progress/c", "1")
	for reached := false; !reached; {
		resp := next(notified, "progress")
		must(resp.Err())
		want(len(resp.Events) == 0, "events %v", resp.Events)
		reached = resp.Header.Revision >= rev
	}
}

// restored takes a backup, writes more, and restores the backup. A watch from before the restore is not silent: it ends, or
// delivers what is written now.
func restored(ctx context.Context, s Site, _ *transcript.Log) {
	c := s.client()
	create(ctx, c, "/restored/a", "1")
	s.do(ctx, site.Backup)
	untilRead(ctx, c, "/restored/a")
	watch := created(ctx, c, "/restored/", clientv3.WithPrefix())
	for i := range 100 {
		create(ctx, c, fmt.Sprintf("/restored/lost/%d", i), "1")
	}
	s.do(ctx, site.Restore)
	untilRead(ctx, c, "/restored/a")
	want(ok(c.Get(ctx, "/restored/", clientv3.WithPrefix())).Count == 1, "what was lost is there")
	create(ctx, c, "/restored/new", "1")
	for {
		resp, open := await(watch, "the watch")
		must(ctx.Err())
		if !open || resp.Err() != nil || slices.ContainsFunc(resp.Events, func(e *clientv3.Event) bool { return string(e.Kv.Key) == "/restored/new" }) {
			return
		}
	}
}

// syncProxied uses a proxy in front of a server whose advertised URL cannot be reached. The process ends without closing it.
func syncProxied(ctx context.Context, s Site, _ *transcript.Log) {
	proxy := ok(link.Listen(strings.TrimPrefix(s.Direct, "http://")))
	proxied := s
	proxied.Endpoints = []string{"http://" + proxy.Addr()}
	c := proxied.client()
	create(ctx, c, "/sync/a", "1")
	s.do(ctx, site.Cut)
	withDeadline(ctx, 5*time.Second, func(ctx context.Context) { _ = c.Sync(ctx) }) // whatever it returns, the client keeps working
	withDeadline(ctx, 5*time.Second, func(ctx context.Context) {
		want(ok(c.Get(ctx, "/sync/a")).Count == 1, "the key is gone")
	})
}

// kubernetes does what an API server does: it lists, watches from the revision of the list, and creates, updates and
// deletes 1,000 objects by 8 writers, while the server is killed and restarted. Every change is seen once, in order, and
// leads from the object's state before to the one after.
func kubernetes(ctx context.Context, s Site, _ *transcript.Log) {
	const objects, writers = 1_000, 8
	c := s.client()
	listed := ok(c.Get(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithLimit(500)))
	watch := c.Watch(clientv3.WithRequireLeader(ctx), "/registry/", clientv3.WithPrefix(), clientv3.WithPrevKV(),
		clientv3.WithProgressNotify(), clientv3.WithRev(listed.Header.Revision+1))

	each(writers+1, func(w int) {
		if w == writers {
			for range 2 {
				must(pause.For(ctx, 500*time.Millisecond))
				restart(ctx, s)
			}
			return
		}
		for i := w; i < objects; i += writers {
			key := fmt.Sprintf("/registry/pods/%d", i)
			write(ctx, c, key, "created")
			write(ctx, c, key, "updated")
			if i%2 == 0 {
				write(ctx, c, key, "")
			}
		}
	})
	create(ctx, c, "/registry/z", "end")

	seen, deleted, last := make(map[string]int64), 0, int64(0) // the revision of each object, as the watch has it
	all := eventsUntil(watch, func(events []*clientv3.Event) bool {
		return len(events) > 0 && string(events[len(events)-1].Kv.Key) == "/registry/z"
	})
	for _, e := range all {
		key, rev := string(e.Kv.Key), e.Kv.ModRevision
		want(rev > last, "revision %d after %d", rev, last)
		want(e.PrevKv.GetModRevision() == seen[key], "%s: revision %d follows %d, the watch saw %d before", key, rev, e.PrevKv.GetModRevision(), seen[key])
		last, seen[key] = rev, rev
		if e.Type == clientv3.EventTypeDelete {
			delete(seen, key)
			deleted++
		}
	}
	delete(seen, "/registry/z")
	end := ok(c.Get(ctx, "/registry/pods/", clientv3.WithPrefix()))
	want(deleted == objects/2 && len(seen) == objects/2 && len(end.Kvs) == objects/2,
		"%d deleted, %d left in the watch, %d stored", deleted, len(seen), len(end.Kvs))
	for _, kv := range end.Kvs {
		want(seen[string(kv.Key)] == kv.ModRevision, "%s is at %d, the watch at %d", kv.Key, kv.ModRevision, seen[string(kv.Key)])
	}
}

// write gives an object a value, or deletes it for "", by a transaction on its revision. After an error it reads the object to
// learn what happened.
func write(ctx context.Context, c *clientv3.Client, key, value string) {
	until(ctx, func(ctx context.Context) error {
		got, err := c.Get(ctx, key)
		if err != nil {
			return err
		}
		var rev int64
		var before string
		for _, kv := range got.Kvs {
			rev, before = kv.ModRevision, string(kv.Value)
		}
		if before == value { // by an earlier try
			return nil
		}
		op := clientv3.OpPut(key, value)
		if value == "" {
			op = clientv3.OpDelete(key)
		}
		resp, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", rev)).Then(op).Else(clientv3.OpGet(key)).Commit()
		if err == nil && !resp.Succeeded {
			err = fmt.Errorf("%s is not at %d any more", key, rev)
		}
		return err
	})
}

// idempotentWrites drops the answer to every write. Each is executed once, and gets the response of that execution. The official
// client has no such writer.
func idempotentWrites(ctx context.Context, s Site, _ *transcript.Log) {
	var lose atomic.Bool // the answer to the next transaction
	cfg := s.config()
	cfg.DialOptions = []grpc.DialOption{grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			if err == nil && method == pb.KV_Txn_FullMethodName && lose.CompareAndSwap(true, false) {
				return status.Error(codes.Unavailable, "the answer is lost")
			}
			return err
		})}
	client, is := any(ok(clientv3.New(cfg))).(*quorate.Client)
	want(is, "the client has no idempotent writes")
	kv := ok(idempotent.New(ctx, client, idempotent.Config{}))
	for range 2 {
		lose.Store(true)
		put := ok(kv.Put(ctx, "k", "v", quorate.WithPrevKV()))
		want(put.PrevKv == nil, "put twice: before it was %v", put.PrevKv)
		lose.Store(true)
		txn := ok(kv.Txn(ctx).If(quorate.Compare(quorate.Version("k"), "=", 2)).
			Then(quorate.OpPut("k", "x")).Else(quorate.OpGet("k"), quorate.OpPut("k", "w")).Commit())
		want(!txn.Succeeded && string(txn.Responses[0].GetResponseRange().Kvs[0].Value) == "v", "transaction: %v", txn)
		lose.Store(true)
		deleted := ok(kv.Delete(ctx, "k", quorate.WithPrevKV()))
		want(len(deleted.PrevKvs) == 1 && deleted.PrevKvs[0].Version == 2, "delete: %v", deleted)
		want(!lose.Load(), "no answer was lost")
	}
	must(kv.Close())
}
