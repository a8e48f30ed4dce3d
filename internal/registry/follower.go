package registry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/clientv3"
)

// Change is a change of one key.
type Change struct {
	Key string
	// Deleted says that the key is gone; Endpoint is empty then.
	Deleted  bool
	Endpoint Endpoint
	// Revision is that of the value, 0 for one that is gone.
	Revision int64
}

// Observer is told what a [Follower] sees, one call at a time.
type Observer interface {
	// Changed is called after every list, with what differs from what was known
	// before, which may be nothing; and then with the changes as they happen, all
	// those of a revision together.
	Changed(changes []Change)
	// Lost is called when the Follower is out of touch with etcd: the list or the watch
	// was refused, or etcd does not answer. What was known is still the best that there
	// is to know, and the Follower goes on. It is called again when the reason is
	// another one.
	Lost(err error)
	// Regained is called after Lost when the Follower is in touch again.
	Regained()
}

// Follower knows the endpoints of a target as of some revision. It is not safe for
// concurrent use.
type Follower struct {
	client *clientv3.Client
	prefix string
	sync   syncState

	// known has the value of every key that was reported. A key whose value has
	// turned into one that cannot be understood stays with its last good one.
	known map[string]string
	// rev is the revision up to which known has every change, or, while nothing is
	// listed, one that the cluster is known to have reached.
	rev int64
	// listed says that a watch can go on from rev.
	listed bool
}

// NewFollower returns a Follower that knows nothing yet, and tolerates that etcd is out of
// sight for some time, which is [DefaultTolerance] for 0.
func NewFollower(client *clientv3.Client, target string, tolerance time.Duration) *Follower {
	return &Follower{
		client: client, prefix: Prefix(target), known: map[string]string{},
		sync: syncState{statuses: client.EndpointStatus, tolerance: cmp.Or(tolerance, DefaultTolerance)},
	}
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
			changes = append(changes, Change{Key: key, Endpoint: e, Revision: kv.ModRevision})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(gone)) {
		delete(f.known, key)
		changes = append(changes, Change{Key: key, Deleted: true})
	}
	f.rev, f.listed = resp.Header.Revision, true
	return changes, nil
}

// apply processes the events of a watch.
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
			changes = append(changes, Change{Key: key, Endpoint: e, Revision: ev.Kv.ModRevision})
		}
	}
	return changes
}
