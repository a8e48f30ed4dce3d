package leasing

import (
	"bytes"
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
)

// simServer is a single-threaded model of an etcd server.
type simServer struct {
	rev    int64
	items  map[string]*mvccpb.KeyValue
	leases map[clientv3.LeaseID]bool
	// events are the changes of leasing keys, in order.
	events []*clientv3.Event
	prefix string
}

func newSimServer(prefix string) *simServer {
	return &simServer{rev: 1, items: map[string]*mvccpb.KeyValue{}, leases: map[clientv3.LeaseID]bool{}, prefix: prefix}
}

func (s *simServer) header() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: s.rev} }

// put, remove and so on are part of one transaction, which starts with s.rev++.
func (s *simServer) put(key, value string, lease clientv3.LeaseID) {
	item := &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), CreateRevision: s.rev, Version: 1, Lease: int64(lease)}
	if old := s.items[key]; old != nil {
		item.CreateRevision, item.Version = old.CreateRevision, old.Version+1
	}
	item.ModRevision = s.rev
	s.items[key] = item
	s.record(clientv3.EventTypePut, item)
}

func (s *simServer) remove(key string) {
	if s.items[key] != nil {
		delete(s.items, key)
		s.record(clientv3.EventTypeDelete, &mvccpb.KeyValue{Key: []byte(key), ModRevision: s.rev})
	}
}

func (s *simServer) record(kind mvccpb.Event_EventType, item *mvccpb.KeyValue) {
	if bytes.HasPrefix(item.Key, []byte(s.prefix)) {
		s.events = append(s.events, &clientv3.Event{Type: kind, Kv: item})
	}
}

// in returns the items of [begin, end), or of begin alone, in order.
func (s *simServer) in(begin, end string) []*mvccpb.KeyValue {
	var found []*mvccpb.KeyValue
	for _, key := range slices.Sorted(maps.Keys(s.items)) {
		if (span{begin: begin, end: end}).contains(key) {
			found = append(found, s.items[key])
		}
	}
	return found
}

// holds evaluates a comparison.
func (s *simServer) holds(c clientv3.Cmp) bool {
	m := c.GetCompare()
	found := s.in(string(m.Key), string(m.RangeEnd))
	if len(found) == 0 {
		return holds(m, nil)
	}
	return !slices.ContainsFunc(found, func(item *mvccpb.KeyValue) bool { return !holds(m, item) })
}

func (s *simServer) apply(op clientv3.Op) {
	switch {
	case op.IsTxn():
		_, thenOps, _ := op.Txn()
		for _, inner := range thenOps {
			s.apply(inner)
		}
	case op.IsPut() && bytes.HasSuffix(op.ValueBytes(), []byte("leased")):
		s.put(string(op.KeyBytes()), string(op.ValueBytes()), simUserLease)
	case op.IsPut():
		s.put(string(op.KeyBytes()), string(op.ValueBytes()), clientv3.NoLease)
	case op.IsDelete():
		for _, item := range s.in(string(op.KeyBytes()), string(op.RangeBytes())) {
			s.remove(string(item.Key))
		}
	}
}

// expire ends a lease and deletes its keys.
func (s *simServer) expire(lease clientv3.LeaseID) {
	s.rev++
	for _, item := range s.in("\x00", toTheEnd) {
		if clientv3.LeaseID(item.Lease) == lease {
			s.remove(string(item.Key))
		}
	}
	delete(s.leases, lease)
}

// simUserLease is the lease that a user attaches keys to.
const simUserLease clientv3.LeaseID = 7
