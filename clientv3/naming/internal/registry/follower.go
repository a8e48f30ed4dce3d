package registry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
)

// Change is a change of one key.
type Change struct {
	Key string
	// Deleted is set if the key was deleted; Endpoint is empty then.
	Deleted  bool
	Endpoint Endpoint
	// Revision is the revision of the value, 0 for a deleted key.
	Revision int64
}

// Observer receives the events of a [Follower]. Changed is called by one goroutine at a time, and so
// are Lost and Regained.
type Observer interface {
	// Changed is called after every list, with the differences, which may be none; then
	// with the changes as they happen, all changes of a revision in one call.
	Changed(changes []Change)
	// Lost is called when the Follower loses contact with etcd: the list or the watch was
	// refused, or etcd does not answer. The known endpoints stay valid, and the Follower
	// keeps trying. Lost is called again when the reason changes.
	Lost(err error)
	// Regained is called after Lost when the Follower is synced again.
	Regained()
}

// Follower holds the endpoints of a target as of some revision. It is not safe for
// concurrent use.
type Follower struct {
	// Decode makes an endpoint of a value. The default reads those of [Encode].
	Decode func(value []byte) (Endpoint, error)

	client *clientv3.Client
	prefix string
	sync   syncState

	// known has the value of every key that was reported. A key whose new value is
	// invalid keeps its last valid one.
	known map[string]string
	// rev is the revision up to which known is complete, or, before a list, one that the
	// cluster has reached.
	rev int64
	// listed is set if a watch can continue from rev.
	listed bool
}

// NewFollower returns an empty Follower. It reports lost contact only after tolerance,
// where 0 means [DefaultTolerance].
func NewFollower(client *clientv3.Client, target string, tolerance time.Duration) *Follower {
	f := &Follower{Decode: decode, client: client, prefix: Prefix(target), known: map[string]string{}}
	f.sync.statuses, f.sync.tolerance = client.EndpointStatus, cmp.Or(tolerance, DefaultTolerance)
	return f
}

// List reads all endpoints and returns the differences: new and changed ones in the order
// of the keys, then deleted ones.
//
// It uses a serializable read, which needs no quorum. If the member is behind a revision
// seen before, List repeats it as a linearizable read. That result always counts, as the
// cluster may have been restored from a backup.
func (f *Follower) List(ctx context.Context) ([]Change, error) {
	kvs, rev, err := f.read(ctx, clientv3.WithPrefix(), clientv3.WithSerializable())
	if err == nil && rev < f.rev {
		kvs, rev, err = f.read(ctx, clientv3.WithPrefix())
	}
	if err != nil {
		return nil, err
	}
	var changes []Change
	gone := maps.Clone(f.known)
	for _, kv := range kvs {
		key, value := string(kv.Key), string(kv.Value)
		delete(gone, key)
		if before, ok := f.known[key]; ok && before == value {
			continue
		}
		if e, ok := f.decode(kv); ok {
			f.known[key] = value
			changes = append(changes, Change{Key: key, Endpoint: e, Revision: kv.ModRevision})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(gone)) {
		delete(f.known, key)
		changes = append(changes, Change{Key: key, Deleted: true})
	}
	f.rev, f.listed = rev, true
	return changes, nil
}

// read reads the keys in pages, and returns their revision.
func (f *Follower) read(ctx context.Context, opts ...clientv3.OpOption) (kvs []*mvccpb.KeyValue, rev int64, err error) {
	for page, err := range clientv3.Pages(ctx, f.client, f.prefix, opts...) {
		if err != nil {
			return nil, 0, err
		}
		kvs, rev = append(kvs, page.Kvs...), page.Header.GetRevision()
	}
	return kvs, rev, nil
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
		if e, ok := f.decode(ev.Kv); ok {
			f.known[key] = string(ev.Kv.Value)
			changes = append(changes, Change{Key: key, Endpoint: e, Revision: ev.Kv.ModRevision})
		}
	}
	return changes
}
