package behaviours

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// delivery bounds the wait for what a watch or a keepalive must deliver.
const delivery = 20 * time.Second

// receive records what a watch delivers next: a response with its error, or its end.
func receive(log *transcript.Log, step string, watch clientv3.WatchChan) {
	resp, open := await(watch, step)
	if !open {
		log.Value(step, "closed")
		return
	}
	record(log, step, resp)
}

// await returns what comes next on a channel, and whether it is open.
func await[T any](ch <-chan T, what string) (v T, open bool) {
	select {
	case v, open = <-ch:
	case <-time.After(delivery):
		fail("%s: nothing was delivered within %v", what, delivery)
	}
	return v, open
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

// gatherEvents returns the next n events of a watch, whichever responses they come in.
func gatherEvents(watch clientv3.WatchChan, n int) []*clientv3.Event {
	return awaitEvents(watch, func(events []*clientv3.Event) bool { return len(events) >= n })
}

// gatherUntil returns the next events of a watch, up to the first of a key.
func gatherUntil(watch clientv3.WatchChan, key string) []*clientv3.Event {
	return awaitEvents(watch, func(events []*clientv3.Event) bool {
		return len(events) > 0 && string(events[len(events)-1].Kv.Key) == key
	})
}

func awaitEvents(watch clientv3.WatchChan, enough func([]*clientv3.Event) bool) (events []*clientv3.Event) {
	for !enough(events) {
		resp, open := await(watch, fmt.Sprintf("after %d events", len(events)))
		must(resp.Err())
		want(open, "the watch ended after %d events", len(events))
		events = append(events, resp.Events...)
	}
	return events
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

// watchRanges watches keys and ranges. The last put of each is one that the watch must deliver, so that one event too many
// shows as well.
func watchRanges(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	log.Value("constants", []any{clientv3.AutoWatchID, clientv3.InvalidWatchID, clientv3.EventTypePut, clientv3.EventTypeDelete})
	for _, w := range []struct {
		name, key string
		opts      []clientv3.OpOption
		last      string
		responses int
	}{
		{"key", "watch/b", nil, "watch/b", 2},
		{"prefix", "watch/b", []clientv3.OpOption{clientv3.WithPrefix()}, "watch/b", 3},
		{"range", "watch/b", []clientv3.OpOption{clientv3.WithRange("watch/c")}, "watch/b", 3},
		{"from key", "watch/b", []clientv3.OpOption{clientv3.WithFromKey()}, "watch/b", 4},
		{"everything", "", []clientv3.OpOption{clientv3.WithPrefix()}, "watch/a", 5},
		{"everything from the first key", "", []clientv3.OpOption{clientv3.WithFromKey()}, "watch/a", 5},
		{"empty key", "", nil, "\x00", 1},
	} {
		watching(ctx, c, log, w.name, w.key, w.opts, func(watch clientv3.WatchChan) {
			putAll(ctx, c, w.name, "watch/a", "watch/b", "watch/b1", "watch/c", w.last)
			for i := range w.responses {
				receive(log, fmt.Sprintf("%s: %d", w.name, i), watch)
			}
		})
	}
	log.Step("delete the empty key")(c.Delete(ctx, "\x00"))
}

// watchEvents watches every kind of change.
func watchEvents(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	prefix := clientv3.WithPrefix()
	for _, w := range []struct {
		name      string
		opts      []clientv3.OpOption
		responses int
	}{
		{"plain", nil, 6},
		{"previous", []clientv3.OpOption{clientv3.WithPrevKV()}, 6},
		{"no puts", []clientv3.OpOption{clientv3.WithFilterPut()}, 3},
		{"no puts, previous", []clientv3.OpOption{clientv3.WithFilterPut(), clientv3.WithPrevKV()}, 3},
		{"no deletes", []clientv3.OpOption{clientv3.WithFilterDelete()}, 4},
		{"buffer logged", []clientv3.OpOption{clientv3.WithWatchBufLog()}, 6},
		{"fragments", []clientv3.OpOption{clientv3.WithFragment()}, 6},
	} {
		watching(ctx, c, log, w.name, "events/", append(w.opts, prefix), func(watch clientv3.WatchChan) {
			putAll(ctx, c, w.name, "events/a", "events/a", "events/b")
			ok(c.Delete(ctx, "events/a"))
			ok(c.Txn(ctx).Then(clientv3.OpPut("events/d", "1"), clientv3.OpDelete("events/b"), clientv3.OpPut("events/c", "1")).Commit())
			ok(c.Delete(ctx, "events/none"))
			ok(c.Delete(ctx, "events/", prefix))
			for i := range w.responses {
				receive(log, fmt.Sprintf("%s: %d", w.name, i), watch)
			}
		})
	}
	watching(ctx, c, log, "neither puts nor deletes", "events/", []clientv3.OpOption{prefix, clientv3.WithFilterPut(), clientv3.WithFilterDelete()},
		func(watch clientv3.WatchChan) {
			putAll(ctx, c, "1", "events/a")
			log.Error("neither puts nor deletes: request progress", c.RequestProgress(ctx))
			receive(log, "neither puts nor deletes", watch)
		})
}

// watchLeases watches keys that go with their lease.
func watchLeases(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	for _, ttl := range []int64{3600, 1} {
		name := fmt.Sprintf("lease of %d s", ttl)
		opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithPrevKV()}
		watching(ctx, c, log, name, "leased/", opts, func(watch clientv3.WatchChan) {
			grant := ok(c.Grant(ctx, ttl))
			put := func() error {
				_, err := c.Txn(ctx).Then(
					clientv3.OpPut("leased/b", "1", clientv3.WithLease(grant.ID)),
					clientv3.OpPut("leased/a", "1", clientv3.WithLease(grant.ID)),
				).Commit()
				return err
			}
			err := put()
			for ; errors.Is(err, rpctypes.ErrLeaseNotFound); err = put() { // a short one may be gone already
				grant = ok(c.Grant(ctx, ttl))
			}
			must(err)
			receive(log, name+": put", watch)
			if ttl > 1 { // the other one expires
				ok(c.Revoke(ctx, grant.ID))
			}
			receive(log, name+": gone", watch)
		})
	}
}

// watchLate reads what was delivered long after it happened.
func watchLate(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	const puts = 50
	watching(ctx, c, log, "late", "late", []clientv3.OpOption{clientv3.WithCreatedNotify()}, func(watch clientv3.WatchChan) {
		for i := range puts {
			putAll(ctx, c, fmt.Sprint(i), "late")
		}
		for i := range puts + 1 {
			receive(log, fmt.Sprintf("late: %d", i), watch)
		}
	})
}
