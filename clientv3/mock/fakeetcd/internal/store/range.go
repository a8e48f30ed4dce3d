package store

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3/internal/semantics"
)

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
