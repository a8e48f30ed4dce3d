package behaviours

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// receive records what a watch delivers next: a response with its error, or its end.
func receive(log *transcript.Log, step string, watch clientv3.WatchChan) {
	resp, open := await(watch, step)
	if !open {
		log.Value(step, "closed")
		return
	}
	record(log, step, resp)
}

// record records a response, and what its methods tell about it.
func record(log *transcript.Log, step string, resp clientv3.WatchResponse) {
	log.Step(step)(resp, resp.Err())
	log.Value(step+": is progress", resp.IsProgressNotify())
	kinds := make([]string, len(resp.Events))
	for i, event := range resp.Events {
		kinds[i] = fmt.Sprintf("%v, creates %t, modifies %t", event.Type, event.IsCreate(), event.IsModify())
	}
	log.Value(step+": kinds", kinds)
}

// watching watches for as long as use runs, and records how the watch ends when its context is cancelled.
func watching(ctx context.Context, c *clientv3.Client, log *transcript.Log, name, key string, opts []clientv3.OpOption,
	use func(clientv3.WatchChan),
) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := c.Watch(ctx, key, opts...)
	use(watch)
	cancel()
	receive(log, name+": end", watch)
}

func putAll(ctx context.Context, c *clientv3.Client, value string, keys ...string) (revision int64) {
	for _, key := range keys {
		resp := ok(c.Put(ctx, key, value))
		revision = resp.Header.Revision
	}
	return revision
}

// expected is a watch, and how many responses it has.
type expected struct {
	name, key string
	opts      []clientv3.OpOption
	responses int
}

// watchEach opens one watch after the other, each before some changes, and records its responses.
func watchEach(ctx context.Context, c *clientv3.Client, log *transcript.Log, change func(value string), all ...expected) {
	for _, w := range all {
		watching(ctx, c, log, w.name, w.key, w.opts, func(watch clientv3.WatchChan) {
			change(w.name)
			for i := range w.responses {
				receive(log, fmt.Sprintf("%s: %d", w.name, i), watch)
			}
		})
	}
}

// watchRanges watches keys and ranges. The watch must deliver the last put of each, so that an extra event shows as well.
func watchRanges(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	watchEach(ctx, c, log, func(value string) { putAll(ctx, c, value, "watch/a", "watch/b", "watch/b1", "watch/c", "watch/b") },
		expected{"key", "watch/b", nil, 2},
		expected{"prefix", "watch/b", []clientv3.OpOption{clientv3.WithPrefix()}, 3},
		expected{"range", "watch/b", []clientv3.OpOption{clientv3.WithRange("watch/c")}, 3},
		expected{"from key", "watch/b", []clientv3.OpOption{clientv3.WithFromKey()}, 4},
		expected{"everything", "", []clientv3.OpOption{clientv3.WithPrefix()}, 5},
	)
	watchEach(ctx, c, log, func(value string) { putAll(ctx, c, value, "watch/a", "\x00") }, expected{"empty key", "", nil, 1})
	log.Step("delete the empty key")(c.Delete(ctx, "\x00"))
}

// watchEvents watches every kind of change.
func watchEvents(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	prefix, noPuts := clientv3.WithPrefix(), clientv3.WithFilterPut()
	change := func(value string) {
		putAll(ctx, c, value, "events/a", "events/a", "events/b")
		ok(c.Delete(ctx, "events/a"))
		ok(c.Txn(ctx).Then(clientv3.OpPut("events/d", "1"), clientv3.OpDelete("events/b"), clientv3.OpPut("events/c", "1")).Commit())
		ok(c.Delete(ctx, "events/none"))
		ok(c.Delete(ctx, "events/", prefix))
	}
	watchEach(ctx, c, log, change,
		expected{"plain", "events/", []clientv3.OpOption{prefix}, 6},
		expected{"previous", "events/", []clientv3.OpOption{prefix, clientv3.WithPrevKV()}, 6},
		expected{"no puts", "events/", []clientv3.OpOption{prefix, noPuts}, 3},
		expected{"no deletes", "events/", []clientv3.OpOption{prefix, clientv3.WithFilterDelete()}, 4},
		expected{"fragments", "events/", []clientv3.OpOption{prefix, clientv3.WithFragment()}, 6},
	)
}

// watchEnds ends watches in every way that a program can.
func watchEnds(ctx context.Context, at Site, log *transcript.Log) {
	c := at.client()
	defer end(c, log)
	watching(ctx, c, log, "neighbour", "ends", nil, func(neighbour clientv3.WatchChan) {
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		receive(log, "cancelled before", c.Watch(cancelled, "ends"))
		expired, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
		defer cancel()
		receive(log, "expired before", c.Watch(expired, "ends"))
		withDeadline(ctx, 200*time.Millisecond, func(ctx context.Context) { receive(log, "expires", c.Watch(ctx, "ends")) })
		withCancel(ctx, 200*time.Millisecond, func(ctx context.Context) {
			receive(log, "is cancelled", c.Watch(ctx, "ends", clientv3.WithPrefix()))
		})
		putAll(ctx, c, "1", "ends")
		receive(log, "neighbour goes on", neighbour)
	})
	watcherCloses(ctx, c, log)

	closing := at.client()
	watch := closing.Watch(ctx, "ends")
	own := clientv3.NewWatcher(closing)
	log.Error("client: close", closing.Close())
	ended(log, "client: watch", watch)
	receive(log, "client: watch afterwards", closing.Watch(ctx, "ends"))
	log.Error("client: request progress afterwards", closing.RequestProgress(ctx))
	log.Error("client: close of a watcher of its own", own.Close())
}

// watcherCloses closes a watcher apart from its client.
func watcherCloses(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	w := clientv3.NewWatcher(c)
	watches := []clientv3.WatchChan{
		w.Watch(ctx, "ends"),
		w.Watch(ctx, "ends/", clientv3.WithPrefix()),
		w.Watch(clientv3.WithRequireLeader(ctx), "ends"),
	}
	putAll(ctx, c, "1", "ends")
	receive(log, "watcher: event", watches[0])
	receive(log, "watcher: event, leader required", watches[2])
	log.Error("watcher: close", w.Close())
	for i, watch := range watches {
		ended(log, fmt.Sprintf("watcher: watch %d", i), watch)
	}
	log.Error("watcher: close again", w.Close())
	receive(log, "watcher: watch afterwards", w.Watch(ctx, "ends"))
	log.Error("watcher: request progress afterwards", w.RequestProgress(ctx))
	log.Error("watcher: close of one that was not used", clientv3.NewWatcher(c).Close())
}

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

// watchProgress requests progress, and waits for notifications. A request reaches only watches with the same metadata.
func watchProgress(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	contexts := []struct {
		name string
		ctx  context.Context
	}{
		{"plain", ctx},
		{"leader required", clientv3.WithRequireLeader(ctx)},
		{"metadata", metadata.AppendToOutgoingContext(ctx, "key", "value")},
		{"other metadata", metadata.AppendToOutgoingContext(ctx, "key", "other")},
	}
	watches := make(map[string]clientv3.WatchChan)
	for _, w := range contexts {
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		watches[w.name] = c.Watch(ctx, "progress/", clientv3.WithPrefix())
	}
	for _, asked := range contexts {
		log.Error(asked.name+": request", c.RequestProgress(asked.ctx))
		receive(log, asked.name+": progress", watches[asked.name])
		putAll(ctx, c, asked.name, "progress/"+asked.name)
		for _, w := range contexts {
			receive(log, asked.name+": "+w.name, watches[w.name])
		}
	}
	log.Error("metadata without a watch", c.RequestProgress(metadata.AppendToOutgoingContext(ctx, "key", "none")))
	neither := []clientv3.OpOption{clientv3.WithFilterPut(), clientv3.WithFilterDelete()}
	watching(ctx, c, log, "neither puts nor deletes", "progress/", neither, func(watch clientv3.WatchChan) {
		putAll(ctx, c, "1", "progress/")
		log.Error("neither puts nor deletes: request", c.RequestProgress(ctx))
		receive(log, "neither puts nor deletes", watch)
	})
}
