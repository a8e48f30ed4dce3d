package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
)

// listTimeout bounds a list that nobody waits for, so that an observer learns of an
// outage. It is far above what a list takes of a cluster that works, elections
// included.
const listTimeout = 5 * time.Second

// ErrClientClosed is returned when there is nothing to follow any more.
var ErrClientClosed = errors.New("the etcd client was closed")

var errWatchClosed = errors.New("the watch was closed")

// Change is a change of one key.
type Change struct {
	Key string
	// Deleted says that the key is gone; Endpoint is empty then.
	Deleted  bool
	Endpoint Endpoint
}

// Observer is told what a [Follower] sees, one call at a time.
type Observer interface {
	// Changed is called after every list, with what differs from what was known
	// before, which may be nothing; and then with the changes as they happen, all
	// those of a revision together.
	Changed(changes []Change)
	// Failed is called when the list or the watch failed. What was known is still
	// the best that there is to know, and the Follower goes on.
	Failed(err error)
}

// Follower knows the endpoints of a target as of some revision. It is not safe for
// concurrent use.
type Follower struct {
	client *clientv3.Client
	prefix string

	// known has the value of every key that was told of. A key whose value has
	// turned into one that cannot be understood stays with its last good one.
	known map[string]string
	// rev is the revision up to which known has every change, or, while nothing is
	// listed, one that the cluster is known to have reached.
	rev int64
	// listed says that a watch can go on from rev.
	listed bool
}

// NewFollower returns a Follower that knows nothing yet.
func NewFollower(client *clientv3.Client, target string) *Follower {
	return &Follower{client: client, prefix: Prefix(target), known: map[string]string{}}
}

// List reads all endpoints and returns what differs from what was known before:
// what is new or different in the order of the keys, and then what is gone.
//
// It asks any member, so that it works without a quorum too. A member that is
// behind what was seen before is not believed: then it is the cluster that is
// asked. Its answer counts in any case, as it may have been restored from a backup.
func (f *Follower) List(ctx context.Context) ([]Change, error) {
	resp, err := f.client.Get(ctx, f.prefix, clientv3.WithPrefix(), clientv3.WithSerializable())
	if err == nil && resp.Header.Revision < f.rev {
		resp, err = f.client.Get(ctx, f.prefix, clientv3.WithPrefix())
	}
	if err != nil {
		return nil, err
	}
	var changes []Change
	gone := maps.Clone(f.known)
	for _, kv := range resp.Kvs {
		key, value := string(kv.Key), string(kv.Value)
		delete(gone, key)
		if before, ok := f.known[key]; ok && before == value {
			continue
		}
		if e, ok := Decode(f.client, kv); ok {
			f.known[key] = value
			changes = append(changes, Change{Key: key, Endpoint: e})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(gone)) {
		delete(f.known, key)
		changes = append(changes, Change{Key: key, Deleted: true})
	}
	f.rev, f.listed = resp.Header.Revision, true
	return changes, nil
}

// Follow tells o of all changes from the last List on, or from a list that it makes
// itself if there was none. Whenever the watch breaks, because what it needs was
// compacted for instance, it lists anew. Between attempts it waits, for a random
// time that grows up to maxDelay.
//
// It returns when ctx ends, with its error, or when the client is closed, with
// ErrClientClosed.
func (f *Follower) Follow(ctx context.Context, o Observer) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.client.Ctx(), cancel)()

	var delay backoff
	for {
		began := time.Now()
		err := f.listAndWatch(watching, o)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case f.client.Ctx().Err() != nil:
			return ErrClientClosed
		case !errors.Is(err, rpctypes.ErrCompacted): // a list makes up for it
			o.Failed(err)
		}
		Logger(f.client).Info("endpoints will be listed anew", zap.String("prefix", f.prefix), zap.Error(err))
		if time.Since(began) > maxDelay {
			delay.reset()
		}
		delay.wait(watching)
	}
}

// listAndWatch returns why it cannot go on.
func (f *Follower) listAndWatch(ctx context.Context, o Observer) error {
	if !f.listed {
		listing, cancel := context.WithTimeout(ctx, listTimeout)
		changes, err := f.List(listing)
		cancel()
		if err != nil {
			return fmt.Errorf("listing the endpoints below %q: %w", f.prefix, err)
		}
		o.Changed(changes)
	}
	f.listed = false
	if err := f.watch(ctx, o); err != nil {
		return fmt.Errorf("watching the endpoints below %q: %w", f.prefix, err)
	}
	return nil
}

func (f *Follower) watch(ctx context.Context, o Observer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for resp := range f.client.Watch(ctx, f.prefix, clientv3.WithPrefix(), clientv3.WithRev(f.rev+1)) {
		if err := resp.Err(); err != nil {
			f.rev = max(f.rev, resp.CompactRevision)
			return err
		}
		if changes := f.apply(resp.Events); len(changes) > 0 {
			o.Changed(changes)
		}
	}
	return errWatchClosed
}

func (f *Follower) apply(events []*clientv3.Event) []Change {
	changes := make([]Change, 0, len(events))
	for _, ev := range events {
		key := string(ev.Kv.Key)
		f.rev = ev.Kv.ModRevision
		if ev.Type == clientv3.EventTypeDelete {
			delete(f.known, key)
			changes = append(changes, Change{Key: key, Deleted: true})
			continue
		}
		if e, ok := Decode(f.client, ev.Kv); ok {
			f.known[key] = string(ev.Kv.Value)
			changes = append(changes, Change{Key: key, Endpoint: e})
		}
	}
	return changes
}
