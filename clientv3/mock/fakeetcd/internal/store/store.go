// Package store is a small etcd state machine in memory: keys with their
// history, transactions, compaction and leases.
//
// It answers the requests of the KV and Lease services with the results and the errors of an etcd 3.7 server. Response
// headers carry only the revision; the caller adds cluster and member. A lease lives until it is revoked, and after
// RunLeases no longer than its TTL.
package store

import (
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
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
