package behaviours

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// watchKeys watches as an API server does, and closes its client.
func watchKeys(ctx context.Context, c *clientv3.Client) {
	prefix, previous := clientv3.WithPrefix(), clientv3.WithPrevKV()
	key := created(clientv3.WithRequireLeader(ctx), c, "/keys/a", previous)
	all := created(ctx, c, "/keys/", prefix)
	first := create(ctx, c, "/keys/a", "1")
	create(ctx, c, "/keys/b", "1")
	second := update(ctx, c, "/keys/a", "2", first)
	third := remove(ctx, c, "/keys/a", second)
	old := c.Watch(ctx, "/keys/", prefix, clientv3.WithRev(first))
	for _, watch := range []clientv3.WatchChan{all, old} {
		want(string(events(watch, 4)[1].Kv.Key) == "/keys/b", "the prefix misses a key")
	}
	since := c.Watch(ctx, "/keys/a", previous, clientv3.WithRev(second))
	got := events(key, 3)
	want(got[0].IsCreate() && got[1].IsModify() && got[2].Type == clientv3.EventTypeDelete, "kinds: %v", got)
	for i, e := range append(got, events(since, 2)...) {
		rev, value := []int64{first, second, third, second, third}[i], []string{"", "1", "2", "1", "2"}[i]
		want(e.Kv.ModRevision == rev && string(e.PrevKv.GetValue()) == value, "event %d: %v", i, e)
	}
	must(c.Close())
	awaitEnd(all, "the watch of a client that is closed")
	must(ctx.Err())
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

func watchMany(ctx context.Context, c *clientv3.Client) {
	const n = 200
	opened := make([]clientv3.WatchChan, n)
	each(n, func(i int) { opened[i] = created(ctx, c, fmt.Sprintf("/two-hundred/%d", i)) })
	each(8, func(w int) {
		for i := w; i < n; i += 8 {
			update(ctx, c, fmt.Sprintf("/two-hundred/%d", i), "2", create(ctx, c, fmt.Sprintf("/two-hundred/%d", i), "1"))
		}
	})
	each(n, func(i int) { events(opened[i], 2) })
}

func watchAgain(ctx context.Context, c *clientv3.Client) {
	for i := range 30 {
		inner, cancel := context.WithCancel(ctx)
		watch := created(inner, c, "/again/", clientv3.WithPrefix())
		create(ctx, c, fmt.Sprintf("/again/%d", i), "1")
		events(watch, 1)
		cancel()
		for resp := range watch {
			want(resp.Err() == nil || resp.Canceled, "after cancel: %+v", resp)
		}
	}
}

func watchReplay(ctx context.Context, c *clientv3.Client) {
	const writers, total = 16, 10_000
	begin := create(ctx, c, "/replay/", "0")
	each(writers, func(w int) {
		key := fmt.Sprintf("/replay/%d", w)
		rev := create(ctx, c, key, "0")
		for range total/writers - 1 {
			rev = update(ctx, c, key, "1", rev)
		}
	})
	seen := make(map[int64]bool)
	for _, e := range events(c.Watch(ctx, "/replay/", clientv3.WithPrefix(), clientv3.WithRev(begin+1)), total) {
		want(!seen[e.Kv.ModRevision], "revision %d twice", e.Kv.ModRevision)
		seen[e.Kv.ModRevision] = true
	}
}
