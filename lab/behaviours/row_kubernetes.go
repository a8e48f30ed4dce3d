package behaviours

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/servers/site"
)

// object is the writers' knowledge of an object: the revisions of the writes that were acknowledged, and whether one has
// an unknown outcome.
type object struct {
	revisions []int64
}

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
	known := make(map[string]*object)
	written := make(chan struct{})
	go func() {
		defer close(written)
		each(writers, func(w int) {
			for i := w; i < objects; i += writers {
				key := fmt.Sprintf("/registry/pods/%d", i)
				o := &object{}
				o.write(ctx, c, key, "created")
				o.write(ctx, c, key, "updated")
				if i%2 == 0 {
					o.write(ctx, c, key, "")
				}
				mu.Lock()
				known[key] = o
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
	for key, o := range known {
		seen := make(map[int64]bool)
		for _, e := range history[key] {
			seen[e.Kv.ModRevision] = true
		}
		for _, rev := range o.revisions {
			want(seen[rev], "%s: the event of revision %d is missing", key, rev)
		}
		checkHistory(key, history[key])
	}
	end := ok(c.Get(ctx, "/registry/pods/", clientv3.WithPrefix()))
	want(end.Count == objects/2, "%d objects at the end", end.Count)
	for _, kv := range end.Kvs {
		events := history[string(kv.Key)]
		want(len(events) > 0 && lastRevision(events) == kv.ModRevision, "%s is at %d, the watch at %d", kv.Key, kv.ModRevision, lastRevision(events))
	}
}

// write brings an object to a value, "" for none, by transactions on its revision. After an error it reads the object to
// learn what happened.
func (o *object) write(ctx context.Context, c *clientv3.Client, key, value string) {
	for {
		inner, cancel := context.WithTimeout(ctx, 2*time.Second)
		done := o.try(inner, c, key, value)
		cancel()
		if done {
			return
		}
		pause(ctx, 20*time.Millisecond)
	}
}

func (o *object) try(ctx context.Context, c *clientv3.Client, key, value string) bool {
	got, err := c.Get(ctx, key)
	if err != nil {
		return false
	}
	var rev int64
	if len(got.Kvs) == 1 {
		rev = got.Kvs[0].ModRevision
		if string(got.Kvs[0].Value) == value {
			return true // by an earlier try
		}
	} else if value == "" {
		return true
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
	if err != nil || !resp.Succeeded {
		return false
	}
	o.revisions = append(o.revisions, resp.Header.Revision)
	return true
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
