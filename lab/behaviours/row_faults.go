package behaviours

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/lab/servers/site"
)

var faults = []Behaviour{
	on(own, "faults", "the client is older than the server", before),
	across(own, "faults", "killed and restarted under a watch", watched, restart),
	across(own, "faults", "killed and restarted under a keepalive", kept, restart),
	across(own, "faults", "killed and restarted under a lock", locked, restart),
	on(own, "faults", "restored from a backup: calls and new watches", restored),
	on(own, "faults", "restored from a backup: an old watch hears of it", restoredWatch),
	on(own, "faults", "Sync behind a proxy that the server does not know", syncProxied),
	long(on(own, "faults", "Kubernetes: 1,000 objects, 8 writers, killed and restarted", kubernetes)),
	row("faults", steps("frozen", frozen)), // the last on its server: a write that was cut off may be executed later
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

// back writes, takes a backup, writes on, and goes back to the backup. It returns the client and the last revision before.
func back(ctx context.Context, s Site, meanwhile func(*clientv3.Client)) (c *clientv3.Client, rev int64) {
	c = s.client()
	create(ctx, c, "/restored/a", "1")
	s.do(ctx, site.Backup)
	untilRead(ctx, c, "/restored/a")
	meanwhile(c)
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
	opened(ctx, c, func() {})
}

// restoredWatch shows that a watch from before is not silent: it ends, or has what is written now.
func restoredWatch(ctx context.Context, s Site) {
	var watch clientv3.WatchChan
	c, _ := back(ctx, s, func(c *clientv3.Client) { watch = created(ctx, c, "/restored/", clientv3.WithPrefix()) })
	create(ctx, c, "/restored/new", "1")
	for {
		resp, open := await(watch, "the watch")
		must(ctx.Err())
		if !open || resp.Err() != nil || slices.ContainsFunc(resp.Events, func(e *clientv3.Event) bool { return string(e.Kv.Key) == "/restored/new" }) {
			return
		}
	}
}

// syncProxied uses a proxy in front of a server whose advertised URL cannot be reached.
func syncProxied(ctx context.Context, s Site) {
	proxy := ok(link.Listen(strings.TrimPrefix(s.Direct, "http://")))
	c := s.with([]string{"http://" + proxy.Addr()}).client()
	create(ctx, c, "/sync/a", "1")
	s.do(ctx, site.Cut)
	withDeadline(ctx, 5*time.Second, func(ctx context.Context) { _ = c.Sync(ctx) }) // whatever it says: the client works on
	withDeadline(ctx, 5*time.Second, func(ctx context.Context) {
		want(ok(c.Get(ctx, "/sync/a")).Count == 1, "the key is gone")
	})
}
