package behaviours

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/lab/servers/site"
)

var faults = []Behaviour{
	on(own, "faults", "the client is older than the server", before),
	on(own, "faults", "killed and restarted under a watch", killUnderWatch),
	on(own, "faults", "killed and restarted under a keepalive", killUnderLease),
	on(own, "faults", "killed and restarted under a lock", killUnderLock),
	on(own, "faults", "frozen: calls end with their deadline", frozenCalls),
	on(own, "faults", "restored from a backup: calls and new watches", restored),
	on(own, "faults", "restored from a backup: an old watch hears of it", restoredWatch),
	on(own, "faults", "Sync behind a proxy that the server does not know", syncProxied),
	long(on(own, "faults", "Kubernetes: 1,000 objects, 8 writers, killed and restarted", kubernetes)),
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
		pause(ctx, 20*time.Millisecond)
	}
}

// untilRead repeats a get until it succeeds.
func untilRead(ctx context.Context, c *clientv3.Client, key string) {
	until(ctx, func(ctx context.Context) error {
		_, err := c.Get(ctx, key)
		return err
	})
}

func before(ctx context.Context, s Site) {
	s.do(ctx, site.Kill)
	c := s.client()
	watches := make(chan clientv3.WatchChan, 1)
	go func() { watches <- c.Watch(ctx, "/before/", clientv3.WithPrefix()) }()
	got := make(chan error, 1)
	go func() {
		_, err := c.Get(ctx, "/before/a")
		got <- err
	}()
	pause(ctx, time.Second)
	s.do(ctx, site.Restart)
	must(<-got)
	watch := <-watches
	// The server may have it a little later: the first keys may precede it.
	for i := 0; ; i++ {
		create(ctx, c, fmt.Sprintf("/before/%d", i), "1")
		select {
		case resp := <-watch:
			must(resp.Err())
			return
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			fail("no event")
		}
	}
}

func killUnderWatch(ctx context.Context, s Site) {
	c := s.client()
	watch := created(ctx, c, "/kill/", clientv3.WithPrefix())
	for i := range 2 {
		s.do(ctx, site.Kill, site.Restart)
		untilRead(ctx, c, "/kill/a")
		create(ctx, c, fmt.Sprintf("/kill/%d", i), "1")
		events(ctx, watch, 1)
	}
}

// renewedFor reads renewals for a while.
func renewedFor(ctx context.Context, kept <-chan *clientv3.LeaseKeepAliveResponse, d time.Duration) {
	renewals := 0
	for begin := time.Now(); time.Since(begin) < d; {
		select {
		case _, open := <-kept:
			want(open, "the channel of renewals ended")
			renewals++
		case <-ctx.Done():
			fail("no renewal")
		}
	}
	want(renewals > 1, "%d renewals", renewals)
}

func killUnderLease(ctx context.Context, s Site) { leaseAcrossRestart(ctx, s, s.client()) }

// leaseAcrossRestart keeps a lease alive while the server is killed and restarted.
func leaseAcrossRestart(ctx context.Context, s Site, c *clientv3.Client) {
	lease := ok(c.Grant(ctx, 6)) // a busy machine takes its time to restart a server
	create(ctx, c, "/alice/lease", "1", clientv3.WithLease(lease.ID))
	kept := ok(c.KeepAlive(ctx, lease.ID))
	s.do(ctx, site.Kill, site.Restart)
	renewedFor(ctx, kept, 8*time.Second)
	want(ok(c.Get(ctx, "/alice/lease")).Count == 1, "the key is gone")
}

func killUnderLock(ctx context.Context, s Site) {
	lockAcross(ctx, s.client(), s.client(), func() { s.do(ctx, site.Kill, site.Restart) })
}

// lockAcross holds a lock across an event while a caller waits for it.
func lockAcross(ctx context.Context, first, second *clientv3.Client, event func()) {
	holder := concurrency.NewMutex(session(first, 10), "/across/")
	waiter := concurrency.NewMutex(session(second, 10), "/across/")
	must(holder.Lock(ctx))
	locked := make(chan error, 1)
	go func() { locked <- waiter.Lock(ctx) }()
	event()
	select {
	case err := <-locked:
		fail("two have the lock: %v", err)
	default:
	}
	until(ctx, holder.Unlock)
	must(<-locked)
	until(ctx, waiter.Unlock)
}

func frozenCalls(ctx context.Context, s Site) {
	c := s.client()
	create(ctx, c, "/frozenCalls/a", "1")
	s.do(ctx, site.Stop)
	begin := time.Now()
	inner, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := c.Get(inner, "/frozenCalls/a")
	want(err != nil && inner.Err() != nil && time.Since(begin) < 5*time.Second, "after %v: %v", time.Since(begin), err)
	s.do(ctx, site.Continue)
	untilRead(ctx, c, "/frozenCalls/a")
}

// back writes, takes a backup, writes on, and goes back to the backup. It returns the client and the last revision before.
func back(ctx context.Context, s Site, watched func(*clientv3.Client)) (*clientv3.Client, int64) {
	c := s.client()
	create(ctx, c, "/restored/a", "1")
	s.do(ctx, site.Backup)
	var rev int64
	untilRead(ctx, c, "/restored/a")
	watched(c)
	for i := range 100 {
		rev = create(ctx, c, fmt.Sprintf("/restored/lost/%d", i), "1")
	}
	s.do(ctx, site.Restore)
	untilRead(ctx, c, "/restored/a")
	return c, rev
}

func restored(ctx context.Context, s Site) {
	c, rev := back(ctx, s, func(*clientv3.Client) {})
	got := ok(c.Get(ctx, "/restored/", clientv3.WithPrefix()))
	want(got.Count == 1 && got.Header.Revision < rev, "%d keys at %d, there were more at %d", got.Count, got.Header.Revision, rev)
	watch := created(ctx, c, "/restored/b")
	create(ctx, c, "/restored/b", "1")
	events(ctx, watch, 1)
}

// restoredWatch shows that a watch from before is not silent: it ends, or has what is written now.
func restoredWatch(ctx context.Context, s Site) {
	var watch clientv3.WatchChan
	c, _ := back(ctx, s, func(c *clientv3.Client) { watch = created(ctx, c, "/restored/", clientv3.WithPrefix()) })
	create(ctx, c, "/restored/new", "1")
	for {
		select {
		case resp, open := <-watch:
			if !open || resp.Err() != nil {
				return
			}
			for _, e := range resp.Events {
				if string(e.Kv.Key) == "/restored/new" {
					return
				}
			}
		case <-ctx.Done():
			fail("nothing from the watch")
		}
	}
}

// syncProxied uses a proxy in front of a server whose advertised URL cannot be reached.
func syncProxied(ctx context.Context, s Site) {
	proxy := ok(link.Listen(strings.TrimPrefix(s.Direct, "http://")))
	cfg := s.config()
	cfg.Endpoints = []string{"http://" + proxy.Addr()}
	c := ok(clientv3.New(cfg))
	create(ctx, c, "/sync/a", "1")
	s.do(ctx, site.Cut)
	inner, cancel := context.WithTimeout(ctx, 5*time.Second)
	_ = c.Sync(inner) // whatever it says: the client works on
	cancel()
	inner, cancel = context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	want(ok(c.Get(inner, "/sync/a")).Count == 1, "the key is gone")
}
