package store

import (
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/keyrange"
)

// at returns the value that key had at a revision, nil if it did not exist.
func (s *Store) at(key string, rev int64) *mvccpb.KeyValue {
	history := s.keys[key]
	for i := len(history) - 1; i >= 0; i-- {
		if c := history[i]; c.kv.ModRevision <= rev {
			if c.deleted {
				return nil
			}
			return c.kv
		}
	}
	return nil
}

// rangeAt returns what the keys of r held at a revision, in order.
func (s *Store) rangeAt(r keyrange.Range, rev int64) []*mvccpb.KeyValue {
	var kvs []*mvccpb.KeyValue
	for key := range s.keys {
		if !r.Contains(key) {
			continue
		}
		if kv := s.at(key, rev); kv != nil {
			kvs = append(kvs, kv)
		}
	}
	slices.SortFunc(kvs, func(a, b *mvccpb.KeyValue) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return kvs
}

// clone copies kv, so that what leaves the store never aliases it.
func clone(kv *mvccpb.KeyValue) *mvccpb.KeyValue {
	if kv == nil {
		return nil
	}
	return proto.CloneOf(kv)
}

func cloneAll(kvs []*mvccpb.KeyValue) []*mvccpb.KeyValue {
	out := make([]*mvccpb.KeyValue, len(kvs))
	for i, kv := range kvs {
		out[i] = clone(kv)
	}
	return out
}

// Events returns the changes to the keys of r from revision from on, in order,
// together with the revision up to which they are complete. With prevKV, each
// carries the value before it, unless that is compacted.
//
// If from is below the last compaction, compacted is that compaction's
// revision and there are no events.
func (s *Store) Events(r keyrange.Range, from int64, prevKV bool) (events []*mvccpb.Event, rev, compacted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from < s.compacted {
		return nil, s.rev, s.compacted
	}
	for _, c := range s.log {
		if c.kv.ModRevision < from || !r.Contains(string(c.kv.Key)) {
			continue
		}
		ev := &mvccpb.Event{Type: mvccpb.Event_PUT, Kv: clone(c.kv)}
		if c.deleted {
			ev.Type = mvccpb.Event_DELETE
		}
		if prevKV && c.kv.ModRevision > s.compacted {
			ev.PrevKv = clone(s.at(string(c.kv.Key), c.kv.ModRevision-1))
		}
		events = append(events, ev)
	}
	return events, s.rev, 0
}
