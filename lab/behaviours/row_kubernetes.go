package behaviours

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/internal/fatal"
)

// kubernetes does what an API server does: it lists, watches from the revision of the list, and creates, updates and
// deletes 1,000 objects by 8 writers, while the server is killed and restarted. Every change is seen once, in order, and
// leads from the object's state before to the one after.
func kubernetes(ctx context.Context, s Site) {
	const objects, writers = 1_000, 8
	c := s.client()
	listed := ok(c.Get(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithLimit(500)))
	watch := c.Watch(clientv3.WithRequireLeader(ctx), "/registry/", clientv3.WithPrefix(), clientv3.WithPrevKV(),
		clientv3.WithProgressNotify(), clientv3.WithRev(listed.Header.Revision+1))

	written := make(chan error, 1)
	go func() {
		written <- fatal.Catch(func() {
			each(writers, func(w int) {
				for i := w; i < objects; i += writers {
					key := fmt.Sprintf("/registry/pods/%d", i)
					write(ctx, c, key, "created")
					write(ctx, c, key, "updated")
					if i%2 == 0 {
						write(ctx, c, key, "")
					}
				}
			})
		})
	}()
	for range 2 {
		pause(ctx, 500*time.Millisecond)
		restart(ctx, s)
	}
	must(<-written)
	create(ctx, c, "/registry/z", "end")

	seen, deleted, last := make(map[string]int64), 0, int64(0) // the revision of each object, as the watch has it
	for _, e := range eventsUpTo(watch, "/registry/z") {
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

// write brings an object to a value, "" for none, by a transaction on its revision. After an error it reads the object to learn
// what happened.
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
