package store

import (
	"bytes"
	"cmp"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/internal/semantics"
)

// at returns the value that key had at a revision, nil if it did not exist.
func (s *Store) at(key string, rev int64) *mvccpb.KeyValue {
	history := s.keys[key]
	later, _ := slices.BinarySearchFunc(history, rev+1, compareRevision)
	if later == 0 || history[later-1].deleted {
		return nil
	}
	return history[later-1].kv
}

// compareRevision finds in an ordered list the first change that is not before rev.
func compareRevision(c change, rev int64) int { return cmp.Compare(c.kv.ModRevision, rev) }

// rangeAt returns what the keys of r held at a revision, in order.
func (s *Store) rangeAt(r semantics.Range, rev int64) []*mvccpb.KeyValue {
	var kvs []*mvccpb.KeyValue
	for key := range s.keys {
		if !r.Contains(key) {
			continue
		}
		if kv := s.at(key, rev); kv != nil {
			kvs = append(kvs, kv)
		}
	}
	slices.SortFunc(kvs, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	return kvs
}

// cloneAll copies kvs, so that what leaves the store never aliases it.
func cloneAll(kvs []*mvccpb.KeyValue) []*mvccpb.KeyValue {
	out := make([]*mvccpb.KeyValue, len(kvs))
	for i, kv := range kvs {
		out[i] = proto.CloneOf(kv)
	}
	return out
}

// Query selects changes for Events.
type Query struct {
	Keys semantics.Range
	// From is the first revision that is wanted.
	From int64
	// PrevKV adds the value before each change, unless that is compacted.
	PrevKV bool
	// Limit bounds the revisions that have changes, 0 means all.
	Limit int
	// Compacted asks for changes even if they were compacted meanwhile: a server
	// has handed them to its watchers by then.
	Compacted bool
}

// Events is the answer to a Query.
type Events struct {
	// Events are in order. A revision is there as a whole or not at all.
	Events []*mvccpb.Event
	// Revision is that of the store.
	Revision int64
	// More is the first revision with changes that did not fit into the limit,
	// 0 if there is none.
	More int64
	// Compacted is the revision of the last compaction if that is above From,
	// and 0 otherwise. There are no events then.
	Compacted int64
}

// Events returns the changes that q selects.
func (s *Store) Events(q Query) Events {
	out := Events{Revision: s.rev}
	if q.From < s.compacted && !q.Compacted {
		out.Compacted = s.compacted
		return out
	}
	first, _ := slices.BinarySearchFunc(s.log, q.From, compareRevision)
	revisions, last := 0, int64(0)
	for _, c := range s.log[first:] {
		if !q.Keys.Contains(string(c.kv.Key)) {
			continue
		}
		if rev := c.kv.ModRevision; rev != last {
			if q.Limit > 0 && revisions == q.Limit {
				out.More = rev
				break
			}
			revisions++
			last = rev
		}
		out.Events = append(out.Events, s.event(c, q.PrevKV))
	}
	return out
}

func (s *Store) event(c change, prevKV bool) *mvccpb.Event {
	ev := &mvccpb.Event{Type: mvccpb.Event_PUT, Kv: proto.CloneOf(c.kv)}
	if c.deleted {
		ev.Type = mvccpb.Event_DELETE
	}
	if prevKV && c.kv.ModRevision > s.compacted {
		ev.PrevKv = proto.CloneOf(s.at(string(c.kv.Key), c.kv.ModRevision-1))
	}
	return ev
}
