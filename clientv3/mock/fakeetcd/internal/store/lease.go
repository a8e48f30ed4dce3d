package store

import (
	"maps"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const (
	// minLeaseTTL is the TTL, in seconds, to which a server with etcd's default
	// timing (heartbeat 100 ms, election timeout 1 s) raises shorter ones.
	minLeaseTTL = 2
	// maxLeaseTTL in seconds is the largest TTL that etcd grants.
	maxLeaseTTL = 9_000_000_000
	// chosenLeases is the first of the ids that the store chooses itself, far from
	// the small numbers that tests use.
	chosenLeases = 0x694d_0000_0000_0000
)

type lease struct {
	ttl   int64 // seconds
	keys  map[string]bool
	ends  time.Time   // zero before the clock runs
	timer *time.Timer // nil before the clock runs
}

func (s *Store) attach(kv *mvccpb.KeyValue) {
	if l := s.leases[kv.Lease]; l != nil {
		l.keys[string(kv.Key)] = true
	}
}

func (s *Store) detach(kv *mvccpb.KeyValue) {
	if l := s.leases[kv.Lease]; l != nil {
		delete(l.keys, string(kv.Key))
	}
}

// LeaseGrant answers a LeaseGrantRequest. It chooses an id if the request has none.
func (s *Store) LeaseGrant(r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	if r.TTL > maxLeaseTTL {
		return nil, rpctypes.ErrGRPCLeaseTTLTooLarge
	}
	id := r.ID
	for id == 0 || r.ID == 0 && s.leases[id] != nil {
		s.granted++
		id = chosenLeases + s.granted
	}
	if s.leases[id] != nil {
		return nil, rpctypes.ErrGRPCLeaseExist
	}
	l := &lease{ttl: max(r.TTL, minLeaseTTL), keys: make(map[string]bool)}
	s.leases[id] = l
	s.renew(id, l)
	return &pb.LeaseGrantResponse{Header: &pb.ResponseHeader{Revision: s.rev}, ID: id, TTL: l.ttl}, nil
}

// LeaseRevoke answers a LeaseRevokeRequest. It deletes the keys of the lease at one
// revision.
func (s *Store) LeaseRevoke(r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	l := s.leases[r.ID]
	if l == nil {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	s.revoke(r.ID, l)
	return &pb.LeaseRevokeResponse{Header: &pb.ResponseHeader{Revision: s.rev}}, nil
}

// revoke ends a lease.
func (s *Store) revoke(id int64, l *lease) {
	if l.timer != nil {
		l.timer.Stop()
	}
	b := &batch{s: s}
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		b.delete(s.at(key, s.rev))
	}
	delete(s.leases, id)
	b.commit()
}

// LeaseTimeToLive answers a LeaseTimeToLiveRequest: TTL -1 for a lease that
// does not exist, the granted TTL while the clock of leases does not run.
func (s *Store) LeaseTimeToLive(r *pb.LeaseTimeToLiveRequest) *pb.LeaseTimeToLiveResponse {
	resp := &pb.LeaseTimeToLiveResponse{Header: &pb.ResponseHeader{Revision: s.rev}, ID: r.ID, TTL: -1}
	l := s.leases[r.ID]
	if l == nil {
		return resp
	}
	resp.TTL, resp.GrantedTTL = l.ttl, l.ttl
	if s.clock != nil {
		resp.TTL = int64(time.Until(l.ends).Seconds())
	}
	if r.Keys {
		for _, key := range slices.Sorted(maps.Keys(l.keys)) {
			resp.Keys = append(resp.Keys, []byte(key))
		}
	}
	return resp
}

// LeaseRenew answers a LeaseKeepAliveRequest: TTL 0 for a lease that does not exist.
func (s *Store) LeaseRenew(r *pb.LeaseKeepAliveRequest) *pb.LeaseKeepAliveResponse {
	resp := &pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{Revision: s.rev}, ID: r.ID}
	if l := s.leases[r.ID]; l != nil {
		resp.TTL = l.ttl
		s.renew(r.ID, l)
	}
	return resp
}

// LeaseLeases lists the ids of all leases in order.
func (s *Store) LeaseLeases() *pb.LeaseLeasesResponse {
	resp := &pb.LeaseLeasesResponse{Header: &pb.ResponseHeader{Revision: s.rev}}
	for _, id := range slices.Sorted(maps.Keys(s.leases)) {
		resp.Leases = append(resp.Leases, &pb.LeaseStatus{ID: id})
	}
	return resp
}

// LeaseKeys returns the keys that are attached to a lease, in order.
func (s *Store) LeaseKeys(id int64) []string {
	l := s.leases[id]
	if l == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(l.keys))
}

// RunLeases starts the clock of leases: each has its whole TTL from now on, as when a member becomes the
// leader, and is revoked when it is not renewed within it. The clock takes mu for that.
func (s *Store) RunLeases(mu sync.Locker) {
	s.clock = mu
	for id, l := range s.leases {
		s.renew(id, l)
	}
}

// StopLeases stops the clock: no lease expires until RunLeases.
func (s *Store) StopLeases() {
	s.clock = nil
	for _, l := range s.leases {
		if l.timer != nil {
			l.timer.Stop()
		}
	}
}

// renew gives a lease its whole TTL, if the clock runs.
func (s *Store) renew(id int64, l *lease) {
	if s.clock == nil {
		return
	}
	ttl := time.Duration(l.ttl) * time.Second
	l.ends = time.Now().Add(ttl)
	if l.timer != nil {
		l.timer.Reset(ttl)
		return
	}
	mu := s.clock
	l.timer = time.AfterFunc(ttl, func() {
		mu.Lock()
		defer mu.Unlock()
		s.expire(id, l)
	})
}

// expire revokes a lease whose TTL has passed. It was perhaps renewed or revoked as the timer fired.
func (s *Store) expire(id int64, l *lease) {
	if s.clock != nil && s.leases[id] == l && !time.Now().Before(l.ends) {
		s.revoke(id, l)
	}
}
