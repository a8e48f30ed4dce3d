// Package store is a small etcd state machine in memory: keys with their
// history, transactions, compaction and leases.
//
// It answers the requests of the KV and Lease services with the results and the errors of an etcd 3.7 server. Response
// headers carry only the revision; the caller adds cluster and member. A lease lives until it is revoked, and after
// RunLeases no longer than its TTL.
package store

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/internal/semantics"
)

// change is one write to one key. It is never modified.
type change struct {
	kv      *mvccpb.KeyValue // of a deletion only Key and ModRevision are set
	deleted bool
}

// Store holds the state. It is not safe for concurrent use.
type Store struct {
	// rev is the revision of the last write. An empty store is at 1.
	rev int64
	// compacted is the revision of the last compaction, -1 if there was none.
	compacted int64
	// log holds every change in order, compacted ones too.
	log []change
	// keys holds the history of each key in order.
	keys map[string][]change
	// puts counts how often each key was put, deletions notwithstanding.
	puts   map[string]int
	leases map[int64]*lease
	// clock guards the store where a lease expires. It is nil while the clock of leases does not run.
	clock sync.Locker
	// granted counts the lease ids that the store chose.
	granted int64
	// changed is closed and replaced whenever the state moves on.
	changed chan struct{}
}

// New returns an empty store.
func New() *Store {
	return &Store{
		rev:       1,
		compacted: -1,
		keys:      make(map[string][]change),
		puts:      make(map[string]int),
		leases:    make(map[int64]*lease),
		changed:   make(chan struct{}),
	}
}

// Revision returns the revision of the last write.
func (s *Store) Revision() int64 { return s.rev }

// Changed returns a channel that is closed when the store moves on from the
// state that it has now: a write or a compaction.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Get returns a copy of the key's current value, nil if it does not exist.
func (s *Store) Get(key string) *mvccpb.KeyValue { return proto.CloneOf(s.at(key, s.rev)) }

// PutCount returns how often key was put, whether or not it still exists.
func (s *Store) PutCount(key string) int { return s.puts[key] }

// notify wakes those that wait for a change.
func (s *Store) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

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

// Range answers a RangeRequest.
func (s *Store) Range(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := s.checkRevision(r.Revision, s.rev); err != nil {
		return nil, err
	}
	return s.read(r, s.rev), nil
}

// checkRevision says whether rev can be read while current is the latest.
func (s *Store) checkRevision(rev, current int64) error {
	switch {
	case rev <= 0:
		return nil
	case rev > current:
		return rpctypes.ErrGRPCFutureRev
	case rev < s.compacted:
		return rpctypes.ErrGRPCCompacted
	default:
		return nil
	}
}

// checkTxnRevision says whether rev can be read in a transaction, where etcd
// takes a negative revision for a compacted one and not for the latest.
func (s *Store) checkTxnRevision(rev int64) error {
	if rev < 0 && rev < s.compacted {
		return rpctypes.ErrGRPCCompacted
	}
	return s.checkRevision(rev, s.rev)
}

// read answers a checked request while current is the latest revision.
func (s *Store) read(r *pb.RangeRequest, current int64) *pb.RangeResponse {
	rev := r.Revision
	if rev <= 0 {
		rev = current
	}
	kvs := s.rangeAt(semantics.Of(r.Key, r.RangeEnd), rev)
	resp := &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: current}, Count: int64(len(kvs))}
	if r.CountOnly {
		return resp
	}
	if n := semantics.LimitBeforeSort(r); n > 0 && int64(len(kvs)) > n {
		kvs = kvs[:n]
	}
	kvs, resp.More = semantics.Select(r, kvs)
	resp.Kvs = cloneAll(kvs)
	if r.KeysOnly {
		dropValues(r, resp.Kvs)
	}
	return resp
}

// dropValues turns kvs into the answer to a keys_only request. etcd 3.7 serves
// it from its index, which knows no leases, unless it had to sort by value.
func dropValues(r *pb.RangeRequest, kvs []*mvccpb.KeyValue) {
	for _, kv := range kvs {
		kv.Value = nil
		if r.SortTarget != pb.RangeRequest_VALUE {
			kv.Lease = 0
		}
	}
}

// Compact answers a CompactionRequest.
func (s *Store) Compact(r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	if r.Revision <= s.compacted {
		return nil, rpctypes.ErrGRPCCompacted
	}
	if r.Revision > s.rev {
		return nil, rpctypes.ErrGRPCFutureRev
	}
	s.compacted = r.Revision
	for key, history := range s.keys {
		if kept := compactHistory(history, r.Revision); len(kept) > 0 {
			s.keys[key] = kept
		} else {
			delete(s.keys, key)
		}
	}
	s.notify()
	return &pb.CompactionResponse{Header: &pb.ResponseHeader{Revision: s.rev}}, nil
}

// compactHistory drops what cannot be read any more: everything before the
// change that is visible at rev, and that one too if it is a deletion.
func compactHistory(history []change, rev int64) []change {
	first := 0
	for i, c := range history {
		if c.kv.ModRevision <= rev {
			first = i
			if c.deleted {
				first = i + 1
			}
		}
	}
	return slices.Clone(history[first:])
}

// Encode returns all keys at the current revision as a marshalled
// RangeResponse: what the fake has in place of a database file.
func (s *Store) Encode() []byte {
	all := &pb.RangeResponse{Kvs: s.rangeAt(semantics.Of([]byte{0}, []byte{0}), s.rev)}
	// Only a string that is not UTF-8 fails to marshal, and there is none.
	data, _ := proto.Marshal(all)
	return data
}
