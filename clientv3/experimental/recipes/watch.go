package recipe

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
)

// WaitEvents waits until events of the types evs have befallen a key in this order,
// others between them not counting, and returns the last of them. It sees the events
// from revision rev on, or from now on if rev is 0.
//
// It returns an error, and no event, if evs is empty, if the watch breaks
// (rpctypes.ErrCompacted if rev was compacted), or if the client is closed.
func WaitEvents(c *clientv3.Client, key string, rev int64, evs []mvccpb.Event_EventType) (*clientv3.Event, error) {
	return waitSequence(c, key, evs, clientv3.WithRev(rev))
}

// WaitPrefixEvents is [WaitEvents] for all keys with a prefix taken together.
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

// waitEvent watches until accept returns true, and returns the event that it was given.
func waitEvent(ctx context.Context, c *clientv3.Client, key string, accept func(*clientv3.Event) bool, opts ...clientv3.OpOption) (*clientv3.Event, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	responses := c.Watch(watching, key, opts...)
	if responses == nil { // a Watcher that a program has set may do so
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

// waitPut waits for a key, or one of the range that the options ask for, to be put after
// a revision.
func waitPut(ctx context.Context, c *clientv3.Client, key string, rev int64, opts ...clientv3.OpOption) (*clientv3.Event, error) {
	opts = append(opts, clientv3.WithRev(rev+1), clientv3.WithFilterDelete())
	return waitEvent(ctx, c, key, func(ev *clientv3.Event) bool { return ev.Type == clientv3.EventTypePut }, opts...)
}

// waitGone waits until a key that was read at a revision is gone. A later key of the
// same name is another one.
func waitGone(ctx context.Context, c *clientv3.Client, kv *mvccpb.KeyValue, rev int64) error {
	key := string(kv.Key)
	for {
		_, err := waitEvent(ctx, c, key, func(ev *clientv3.Event) bool { return ev.Type == clientv3.EventTypeDelete },
			clientv3.WithRev(rev+1), clientv3.WithFilterPut())
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return err
		}
		resp, err := c.Get(ctx, key, clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		if len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != kv.CreateRevision {
			return nil
		}
		rev = resp.Header.Revision
	}
}
