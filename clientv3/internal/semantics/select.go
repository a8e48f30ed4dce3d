package semantics

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// LimitBeforeSort is how many keys etcd reads before it sorts and filters: one more than the limit, or all, 0, where it knows
// that it has to see them all. It does not know that of a sort target without a sort order, and then sorts the first keys only.
func LimitBeforeSort(r *pb.RangeRequest) int64 {
	bounded := r.MinModRevision != 0 || r.MaxModRevision != 0 || r.MinCreateRevision != 0 || r.MaxCreateRevision != 0
	ordered := r.SortOrder == pb.RangeRequest_NONE ||
		r.SortTarget == pb.RangeRequest_KEY && r.SortOrder == pb.RangeRequest_ASCEND
	if bounded || !ordered || r.Limit <= 0 || r.Limit == math.MaxInt64 {
		return 0
	}
	return r.Limit + 1
}

// Select filters, sorts and cuts the keys that etcd has read for a request, which are in the order of their keys. It changes kvs.
func Select(r *pb.RangeRequest, kvs []*mvccpb.KeyValue) (selected []*mvccpb.KeyValue, more bool) {
	kvs = slices.DeleteFunc(kvs, func(kv *mvccpb.KeyValue) bool { return Filtered(r, kv) })
	if r.SortTarget != pb.RangeRequest_KEY || r.SortOrder == pb.RangeRequest_DESCEND {
		slices.SortStableFunc(kvs, func(a, b *mvccpb.KeyValue) int {
			if r.SortOrder == pb.RangeRequest_DESCEND {
				a, b = b, a
			}
			return order(r.SortTarget, a, b)
		})
	}
	if r.Limit > 0 && int64(len(kvs)) > r.Limit {
		return kvs[:r.Limit], true
	}
	return kvs, false
}

// Filtered reports whether a request leaves a key out because of its revisions.
func Filtered(r *pb.RangeRequest, kv *mvccpb.KeyValue) bool {
	outside := func(rev, low, high int64) bool { return low != 0 && rev < low || high != 0 && rev > high }
	return outside(kv.ModRevision, r.MinModRevision, r.MaxModRevision) ||
		outside(kv.CreateRevision, r.MinCreateRevision, r.MaxCreateRevision)
}

func order(by pb.RangeRequest_SortTarget, a, b *mvccpb.KeyValue) int {
	switch by {
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
}
