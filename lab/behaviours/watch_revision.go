package behaviours

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// watchRevisions watches from revisions before, at and after the present one.
func watchRevisions(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	first := putAll(ctx, c, "1", "rev/a")
	putAll(ctx, c, "2", "rev/a", "rev/b", "rev/a")
	ok(c.Delete(ctx, "rev/b"))
	putAll(ctx, c, "3", "rev/c")
	prefix, notify := clientv3.WithPrefix(), clientv3.WithCreatedNotify()
	watchEach(ctx, c, log, func(string) {},
		expected{"past", "rev/", []clientv3.OpOption{prefix, clientv3.WithRev(first)}, 1},
		expected{"past, previous", "rev/", []clientv3.OpOption{prefix, clientv3.WithRev(first + 1), clientv3.WithPrevKV()}, 1},
		expected{"past, no puts", "rev/", []clientv3.OpOption{prefix, clientv3.WithRev(first), clientv3.WithFilterPut()}, 1},
		expected{"created", "rev/a", []clientv3.OpOption{notify}, 1},
		expected{"created, past", "rev/a", []clientv3.OpOption{notify, clientv3.WithRev(first)}, 2},
		expected{"created, future", "rev/a", []clientv3.OpOption{notify, clientv3.WithRev(first + 100)}, 1},
	)
	watching(ctx, c, log, "past, then present", "rev/a", []clientv3.OpOption{clientv3.WithRev(first), notify}, func(watch clientv3.WatchChan) {
		receive(log, "created, then past", watch)
		receive(log, "past", watch)
		putAll(ctx, c, "4", "rev/a")
		receive(log, "then present", watch)
	})
	future(ctx, c, log)
}

// future watches from a revision that does not exist yet.
func future(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	next := putAll(ctx, c, "5", "rev/a") + 1
	watchEach(ctx, c, log, func(value string) { putAll(ctx, c, value, "rev/a", "rev/a") },
		expected{"next", "rev/a", []clientv3.OpOption{clientv3.WithRev(next)}, 2},
		expected{"after the next", "rev/a", []clientv3.OpOption{clientv3.WithRev(next + 3)}, 1},
	)
}

// watchRefused opens watches that a server must refuse, and one that it must not.
func watchRefused(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	watching(ctx, c, log, "neighbour", "refused", nil, func(neighbour clientv3.WatchChan) {
		watchesEnd(ctx, c, log, "refused", neighbour, []request{
			{"negative revision", "refused", []clientv3.OpOption{clientv3.WithRev(-1)}},
			{"end before key", "refused", []clientv3.OpOption{clientv3.WithRange("a")}},
		})
	})
	watch := c.Watch(ctx, "refused", clientv3.WithRev(-1))
	receive(log, "alone", watch)
	receive(log, "alone: end", watch)
	log.Panic("prefix and from key", func() { c.Watch(ctx, "refused", clientv3.WithPrefix(), clientv3.WithFromKey()) })
	log.Panic("lease", func() { c.Watch(ctx, "refused", clientv3.WithLease(1)) })
}

// watchesEnd opens watches that end at once, each beside one of a key that goes on.
func watchesEnd(ctx context.Context, c *clientv3.Client, log *transcript.Log, key string, neighbour clientv3.WatchChan, all []request) {
	for _, w := range all {
		watch := c.Watch(ctx, w.key, w.opts...)
		receive(log, w.name, watch)
		receive(log, w.name+": end", watch)
		putAll(ctx, c, w.name, key)
		receive(log, w.name+": neighbour", neighbour)
	}
}

// watchCompacted watches from revisions that are gone.
func watchCompacted(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	first := putAll(ctx, c, "1", "compacted")
	putAll(ctx, c, "2", "compacted", "compacted")
	ok(c.Compact(ctx, first+1))
	watching(ctx, c, log, "neighbour", "compacted", nil, func(neighbour clientv3.WatchChan) {
		watchesEnd(ctx, c, log, "compacted", neighbour, []request{
			{"before", "compacted", []clientv3.OpOption{clientv3.WithRev(first)}},
			{"before, prefix, previous", "compacted", []clientv3.OpOption{clientv3.WithRev(first), clientv3.WithPrefix(), clientv3.WithPrevKV()}},
		})
	})
	watch := c.Watch(ctx, "compacted", clientv3.WithRev(first), clientv3.WithCreatedNotify())
	receive(log, "before, created", watch)
	receive(log, "before, created: compacted", watch)
	receive(log, "before, created: end", watch)
	watching(ctx, c, log, "the compacted revision itself", "compacted", []clientv3.OpOption{clientv3.WithRev(first + 1)},
		func(watch clientv3.WatchChan) { receive(log, "the compacted revision itself", watch) })
}
