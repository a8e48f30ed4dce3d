package recipe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/pause"
)

// WaitEvents waits until a key has had events of the types evs in this order,
// ignoring others in between, and returns the last of them. It watches from revision
// rev on, or from now on if rev is 0.
//
// It returns an error, and no event, if evs is empty, if the watch breaks
// (rpctypes.ErrCompacted if rev was compacted), or if the client is closed.
func WaitEvents(c *clientv3.Client, key string, rev int64, evs []mvccpb.Event_EventType) (*clientv3.Event, error) {
	return waitSequence(c, key, evs, clientv3.WithRev(rev))
}

// WaitPrefixEvents is [WaitEvents] for the combined events of all keys with a
// prefix.
func WaitPrefixEvents(c *clientv3.Client, prefix string, rev int64, evs []mvccpb.Event_EventType) (*clientv3.Event, error) {
	return waitSequence(c, prefix, evs, clientv3.WithRev(rev), clientv3.WithPrefix())
}

func waitSequence(c *clientv3.Client, key string, evs []mvccpb.Event_EventType, opts ...clientv3.OpOption) (*clientv3.Event, error) {
	if len(evs) == 0 {
		return nil, fmt.Errorf("recipe: waiting on %q: no event to wait for is given", key)
	}
	return waitEvent(c.Ctx(), c, key, func(ev *clientv3.Event) bool {
		if ev.Type == evs[0] {
			evs = evs[1:]
		}
		return len(evs) == 0
	}, opts...)
}

// waitEvent watches until accept returns true for an event, and returns the event.
func waitEvent(ctx context.Context, c *clientv3.Client, key string, accept func(*clientv3.Event) bool, opts ...clientv3.OpOption) (*clientv3.Event, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	responses := c.Watch(watching, key, opts...)
	if responses == nil { // a program's own Watcher may return nil
		return nil, fmt.Errorf("recipe: waiting on %q: %w", key, ErrNoWatcher)
	}
	for resp := range responses {
		if err := resp.Err(); err != nil {
			return nil, err
		}
		for _, ev := range resp.Events {
			if accept(ev) {
				return ev, nil
			}
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("recipe: waiting on %q: %w", key, context.Cause(ctx))
	}
	return nil, fmt.Errorf("recipe: waiting on %q: %w", key, ErrNoWatcher)
}

// waitFirst waits for an event of a key, or of one in the range of the options. After a compaction, which may end many
// watches at once, and the next ones too, it returns the error after a pause.
func waitFirst(ctx context.Context, c *clientv3.Client, key string, opts ...clientv3.OpOption) (*clientv3.Event, error) {
	ev, err := waitEvent(ctx, c, key, func(*clientv3.Event) bool { return true }, opts...)
	if errors.Is(err, rpctypes.ErrCompacted) {
		_ = pause.About(ctx, compactedPause) // the next request sees that it has ended
	}
	return ev, err
}

// compactedPause is the mean pause after a compaction.
const compactedPause = time.Second

// waitChange waits for an event of a key after a revision, and returns the key. If what follows the revision was compacted,
// it reads the key, nil if there is none, and changed tells whether it has changed.
func waitChange(ctx context.Context, c *clientv3.Client, key string, rev int64, filter clientv3.OpOption, changed func(*mvccpb.KeyValue) bool) (*mvccpb.KeyValue, error) {
	for {
		ev, err := waitFirst(ctx, c, key, clientv3.WithRev(rev+1), filter)
		if err == nil {
			return ev.Kv, nil
		}
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return nil, err
		}
		resp, err := c.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		var kv *mvccpb.KeyValue
		if len(resp.Kvs) > 0 {
			kv = resp.Kvs[0]
		}
		if changed(kv) {
			return kv, nil
		}
		rev = resp.Header.Revision
	}
}

// waitGone waits until a key that was read at a revision is deleted. A later key
// with the same name is another one.
func waitGone(ctx context.Context, c *clientv3.Client, kv *mvccpb.KeyValue, rev int64) error {
	_, err := waitChange(ctx, c, string(kv.Key), rev, clientv3.WithFilterPut(), func(now *mvccpb.KeyValue) bool {
		return now.GetCreateRevision() != kv.CreateRevision
	})
	return err
}
