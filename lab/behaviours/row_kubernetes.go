package behaviours

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/servers/site"
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

	var mu sync.Mutex
	known := make(map[string][]int64) // the revisions of the writes of an object, 0 where it was not acknowledged
	written := make(chan struct{})
	go func() {
		defer close(written)
		each(writers, func(w int) {
			for i := w; i < objects; i += writers {
				key := fmt.Sprintf("/registry/pods/%d", i)
				revisions := []int64{write(ctx, c, key, "created"), write(ctx, c, key, "updated")}
				if i%2 == 0 {
					revisions = append(revisions, write(ctx, c, key, ""))
				}
				mu.Lock()
				known[key] = revisions
				mu.Unlock()
			}
		})
	}()
	for range 2 {
		pause(ctx, 500*time.Millisecond)
		s.do(ctx, site.Kill, site.Restart)
	}
	<-written
	create(ctx, c, "/registry/z", "end")

	history := follow(ctx, watch, "/registry/z")
	for key, revisions := range known {
		seen := map[int64]bool{0: true}
		for _, e := range history[key] {
			seen[e.Kv.ModRevision] = true
		}
		for _, rev := range revisions {
			want(seen[rev], "%s: the event of revision %d is missing", key, rev)
		}
		checkHistory(key, history[key])
	}
	end := ok(c.Get(ctx, "/registry/pods/", clientv3.WithPrefix()))
	want(end.Count == objects/2, "%d objects at the end", end.Count)
	for _, kv := range end.Kvs {
		events := history[string(kv.Key)]
		want(len(events) > 0, "the watch has nothing of %s", kv.Key)
		last := events[len(events)-1].Kv.ModRevision
		want(last == kv.ModRevision, "%s is at %d, the watch at %d", kv.Key, kv.ModRevision, last)
	}
}

// write brings an object to a value, "" for none, by transactions on its revision, and returns the new one. After an error
// it reads the object to learn what happened.
func write(ctx context.Context, c *clientv3.Client, key, value string) (rev int64) {
	until(ctx, func(ctx context.Context) (err error) {
		rev, err = tryWrite(ctx, c, key, value)
		return err
	})
	return rev
}

// tryWrite returns 0 if an earlier try has written the value.
func tryWrite(ctx context.Context, c *clientv3.Client, key, value string) (int64, error) {
	got, err := c.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	var rev int64
	if len(got.Kvs) == 1 {
		rev = got.Kvs[0].ModRevision
		if string(got.Kvs[0].Value) == value {
			return 0, nil
		}
	} else if value == "" {
		return 0, nil
	}
	change := clientv3.OpPut(key, value)
	if value == "" {
		change = clientv3.OpDelete(key)
	}
	txn := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", rev)).Then(change)
	if rev > 0 {
		txn = txn.Else(clientv3.OpGet(key))
	}
	resp, err := txn.Commit()
	if err == nil && !resp.Succeeded {
		err = fmt.Errorf("%s is not at %d any more", key, rev)
	}
	if err != nil {
		return 0, err
	}
	return resp.Header.Revision, nil
}

// follow returns the events of a watch by key, up to that of the key end. Revisions must grow.
func follow(ctx context.Context, watch clientv3.WatchChan, end string) map[string][]*clientv3.Event {
	history := make(map[string][]*clientv3.Event)
	for last := int64(0); ; {
		resp := next(ctx, watch, fmt.Sprintf("%d keys seen", len(history)))
		must(resp.Err())
		for _, e := range resp.Events {
			want(e.Kv.ModRevision > last, "revision %d after %d", e.Kv.ModRevision, last)
			last = e.Kv.ModRevision
			key := string(e.Kv.Key)
			history[key] = append(history[key], e)
			if key == end {
				return history
			}
		}
	}
}

// checkHistory shows that each event of a key begins where the one before ended.
func checkHistory(key string, events []*clientv3.Event) {
	var before int64
	for _, e := range events {
		want(e.PrevKv.GetModRevision() == before, "%s: revision %d follows %d, the watch saw %d before",
			key, e.Kv.ModRevision, e.PrevKv.GetModRevision(), before)
		before = e.Kv.ModRevision
		if e.Type == clientv3.EventTypeDelete {
			before = 0
		}
	}
}
