package store

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/keyrange"
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
	kvs := s.rangeAt(keyrange.Of(r.Key, r.RangeEnd), rev)
	resp := &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: current}, Count: int64(len(kvs))}
	if r.CountOnly {
		return resp
	}
	if n := limitBeforeSort(r); n > 0 && int64(len(kvs)) > n {
		kvs = kvs[:n]
	}
	kvs = slices.DeleteFunc(kvs, func(kv *mvccpb.KeyValue) bool { return filtered(r, kv) })
	sortKVs(r, kvs)
	if r.Limit > 0 && int64(len(kvs)) > r.Limit {
		kvs = kvs[:r.Limit]
		resp.More = true
	}
	resp.Kvs = cloneAll(kvs)
	if r.KeysOnly {
		dropValues(r, resp.Kvs)
	}
	return resp
}

// limitBeforeSort is how many keys etcd reads before it sorts and filters: one
// more than the limit, or all, 0, where it knows that it has to see them all.
// It does not know that of a sort target without a sort order, and then sorts
// the first keys only.
func limitBeforeSort(r *pb.RangeRequest) int64 {
	bounded := r.MinModRevision != 0 || r.MaxModRevision != 0 || r.MinCreateRevision != 0 || r.MaxCreateRevision != 0
	ordered := r.SortOrder == pb.RangeRequest_NONE ||
		r.SortTarget == pb.RangeRequest_KEY && r.SortOrder == pb.RangeRequest_ASCEND
	if bounded || !ordered || r.Limit <= 0 || r.Limit == math.MaxInt64 {
		return 0
	}
	return r.Limit + 1
}

// filtered reports whether the revision bounds of r leave kv out.
func filtered(r *pb.RangeRequest, kv *mvccpb.KeyValue) bool {
	outside := func(rev, low, high int64) bool { return low != 0 && rev < low || high != 0 && rev > high }
	return outside(kv.ModRevision, r.MinModRevision, r.MaxModRevision) ||
		outside(kv.CreateRevision, r.MinCreateRevision, r.MaxCreateRevision)
}

// sortKVs sorts kvs, which are in the order of their keys.
func sortKVs(r *pb.RangeRequest, kvs []*mvccpb.KeyValue) {
	descend := r.SortOrder == pb.RangeRequest_DESCEND
	if r.SortTarget == pb.RangeRequest_KEY && !descend {
		return
	}
	slices.SortStableFunc(kvs, func(a, b *mvccpb.KeyValue) int {
		if descend {
			a, b = b, a
		}
		switch r.SortTarget {
		case pb.RangeRequest_VERSION:
			return cmp.Compare(a.Version, b.Version)
		case pb.RangeRequest_CREATE:
			return cmp.Compare(a.CreateRevision, b.CreateRevision)
		case pb.RangeRequest_MOD:
			return cmp.Compare(a.ModRevision, b.ModRevision)
		case pb.RangeRequest_VALUE:
			return bytes.Compare(a.Value, b.Value)
		default:
			return bytes.Compare(a.Key, b.Key)
		}
	})
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
