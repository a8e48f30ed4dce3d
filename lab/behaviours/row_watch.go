package behaviours

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var watches = []Behaviour{
	on(plain, "watch", "a key and a prefix", using(watchKeys)),
	on(plain, "watch", "from an old revision", using(watchOld)),
	on(plain, "watch", "previous values", using(watchPrevious)),
	on(plain, "watch", "created is reported", using(watchCreated)),
	on(plain, "watch", "progress on request", using(watchProgressOnRequest)),
	on(plain, "watch", "progress by itself", using(watchNotified)),
	on(plain, "watch", "filters", using(watchFilters)),
	on(plain, "watch", "fragments", using(watchFragments)),
	on(own, "watch", "from a compacted revision", using(watchFromCompacted)),
	on(plain, "watch", "200 on a client", watchMany),
	on(plain, "watch", "canceled and opened again", using(watchAgain)),
	on(plain, "watch", "requires a leader", using(watchLeader)),
	on(plain, "watch", "10,000 revisions are replayed", watchReplay),
	on(plain, "watch", "ends with the client", using(watchClose)),
}

func watchKeys(ctx context.Context, c *clientv3.Client) {
	key := created(ctx, c, "/keys/a")
	prefix := created(ctx, c, "/keys/", clientv3.WithPrefix())
	first := create(ctx, c, "/keys/a", "1")
	create(ctx, c, "/keys/b", "1")
	second := update(ctx, c, "/keys/a", "2", first)
	third := remove(ctx, c, "/keys/a", second)
	got := events(ctx, key, 3)
	want(got[0].IsCreate() && got[1].IsModify() && got[2].Type == clientv3.EventTypeDelete, "kinds: %v", got)
	want(got[0].Kv.ModRevision == first && got[1].Kv.ModRevision == second && got[2].Kv.ModRevision == third, "revisions: %v", got)
	want(string(events(ctx, prefix, 4)[1].Kv.Key) == "/keys/b", "the prefix misses a key")
}

func watchOld(ctx context.Context, c *clientv3.Client) {
	first := create(ctx, c, "/old/a", "1")
	rev := first
	for range 50 {
		rev = update(ctx, c, "/old/a", "2", rev)
	}
	got := events(ctx, c.Watch(ctx, "/old/", clientv3.WithPrefix(), clientv3.WithRev(first)), 51)
	want(got[0].Kv.ModRevision == first && got[50].Kv.ModRevision == rev, "from %d to %d", got[0].Kv.ModRevision, got[50].Kv.ModRevision)
	want(len(events(ctx, c.Watch(ctx, "/old/a", clientv3.WithRev(rev)), 1)) == 1, "the last one")
}

func watchPrevious(ctx context.Context, c *clientv3.Client) {
	watch := created(ctx, c, "/previous/", clientv3.WithPrefix(), clientv3.WithPrevKV())
	remove(ctx, c, "/previous/a", update(ctx, c, "/previous/a", "2", create(ctx, c, "/previous/a", "1")))
	got := events(ctx, watch, 3)
	want(got[0].PrevKv == nil && string(got[1].PrevKv.GetValue()) == "1" && string(got[2].PrevKv.GetValue()) == "2", "got %v", got)
}

func watchCreated(ctx context.Context, c *clientv3.Client) {
	watch := c.Watch(ctx, "/created/a", clientv3.WithCreatedNotify())
	resp := next(ctx, watch, "created")
	want(resp.Created && len(resp.Events) == 0 && resp.Err() == nil, "got %+v", resp)
	create(ctx, c, "/created/a", "1")
	events(ctx, watch, 1)
}

func watchProgressOnRequest(ctx context.Context, c *clientv3.Client) {
	watch := created(ctx, c, "/progress/a")
	rev := create(ctx, c, "/progress/a", "1")
	events(ctx, watch, 1)
	for {
		must(c.RequestProgress(ctx))
		select {
		case resp := <-watch:
			must(resp.Err())
			if resp.IsProgressNotify() && resp.Header.Revision >= rev {
				return
			}
		case <-time.After(100 * time.Millisecond): // a server need not answer before its watchers are synchronized
		case <-ctx.Done():
			fail("no progress")
		}
	}
}

func watchNotified(ctx context.Context, c *clientv3.Client) {
	watch := created(ctx, c, "/notified/a", clientv3.WithProgressNotify())
	rev := create(ctx, c, "/notified/b", "1")
	for {
		resp := next(ctx, watch, "progress")
		must(resp.Err())
		want(len(resp.Events) == 0, "events %v", resp.Events)
		if resp.Header.Revision >= rev {
			return
		}
	}
}

func watchFilters(ctx context.Context, c *clientv3.Client) {
	puts := created(ctx, c, "/filters/", clientv3.WithPrefix(), clientv3.WithFilterDelete())
	deletes := created(ctx, c, "/filters/", clientv3.WithPrefix(), clientv3.WithFilterPut())
	remove(ctx, c, "/filters/a", create(ctx, c, "/filters/a", "1"))
	create(ctx, c, "/filters/b", "1")
	want(string(events(ctx, puts, 2)[1].Kv.Key) == "/filters/b", "a deletion among the puts")
	want(events(ctx, deletes, 1)[0].Type == clientv3.EventTypeDelete, "a put among the deletions")
}

func watchFragments(ctx context.Context, c *clientv3.Client) {
	value := strings.Repeat("x", 500<<10)
	var first int64
	for i := range 8 {
		rev := create(ctx, c, fmt.Sprintf("/fragments/%d", i), value)
		if first == 0 {
			first = rev
		}
	}
	got := events(ctx, c.Watch(ctx, "/fragments/", clientv3.WithPrefix(), clientv3.WithRev(first), clientv3.WithFragment()), 8)
	want(string(got[7].Kv.Value) == value, "another value")
}

func watchFromCompacted(ctx context.Context, c *clientv3.Client) {
	first := create(ctx, c, "/compacted/a", "1")
	last := update(ctx, c, "/compacted/a", "3", update(ctx, c, "/compacted/a", "2", first))
	ok(c.Compact(ctx, last))
	watch := c.Watch(ctx, "/compacted/a", clientv3.WithRev(first))
	resp := next(ctx, watch, "a compacted revision")
	want(resp.Canceled && errors.Is(resp.Err(), rpctypes.ErrCompacted) && resp.CompactRevision == last, "got %+v", resp)
	if resp, open := <-watch; open {
		fail("after the end: %+v", resp)
	}
	want(len(events(ctx, c.Watch(ctx, "/compacted/a", clientv3.WithRev(resp.CompactRevision)), 1)) == 1, "from the revision that it names")
}

func watchMany(ctx context.Context, s Site) {
	const n = 200
	c := s.client()
	opened := make([]clientv3.WatchChan, n)
	each(n, func(i int) { opened[i] = created(ctx, c, fmt.Sprintf("/two-hundred/%d", i)) })
	each(8, func(w int) {
		for i := w; i < n; i += 8 {
			update(ctx, c, fmt.Sprintf("/two-hundred/%d", i), "2", create(ctx, c, fmt.Sprintf("/two-hundred/%d", i), "1"))
		}
	})
	each(n, func(i int) { events(ctx, opened[i], 2) })
}

func watchAgain(ctx context.Context, c *clientv3.Client) {
	for i := range 30 {
		inner, cancel := context.WithCancel(ctx)
		watch := created(inner, c, "/again/", clientv3.WithPrefix())
		create(ctx, c, fmt.Sprintf("/again/%d", i), "1")
		events(ctx, watch, 1)
		cancel()
		for resp := range watch {
			want(resp.Err() == nil || resp.Canceled, "after cancel: %+v", resp)
		}
	}
}

func watchLeader(ctx context.Context, c *clientv3.Client) {
	watch := created(clientv3.WithRequireLeader(ctx), c, "/leader/a")
	create(ctx, c, "/leader/a", "1")
	events(ctx, watch, 1)
}

func watchReplay(ctx context.Context, s Site) {
	const writers, total = 16, 10_000
	c := s.client()
	revs := make(chan int64, writers)
	each(writers, func(w int) {
		key := fmt.Sprintf("/replay/%d", w)
		rev := create(ctx, c, key, "0")
		revs <- rev
		for range total/writers - 1 {
			rev = update(ctx, c, key, "1", rev)
		}
	})
	first := <-revs
	for range writers - 1 {
		first = min(first, <-revs)
	}
	seen := make(map[int64]bool)
	for _, e := range events(ctx, c.Watch(ctx, "/replay/", clientv3.WithPrefix(), clientv3.WithRev(first)), total) {
		want(!seen[e.Kv.ModRevision], "revision %d twice", e.Kv.ModRevision)
		seen[e.Kv.ModRevision] = true
	}
}

func watchClose(ctx context.Context, c *clientv3.Client) {
	watch := created(ctx, c, "/close/a")
	must(c.Close())
	awaitEnd(ctx, watch, "the watch of a client that is closed")
}
