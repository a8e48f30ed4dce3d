package behaviours

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

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
