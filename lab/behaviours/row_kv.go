package behaviours

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

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
