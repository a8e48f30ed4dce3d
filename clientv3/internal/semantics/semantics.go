// Package semantics has rules of etcd for ranges, comparisons and the selection of keys.
package semantics

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// open is the end of a range that has none.
const open = "\x00"

// Range is a set of neighbouring keys, as requests and permissions name it: Key alone if End is empty, every key
// from Key on if End is one zero byte, and otherwise the keys from Key up to but without End.
type Range struct{ Key, End string }

// Of returns the range that a request means.
func Of(key, rangeEnd []byte) Range { return Range{string(key), string(rangeEnd)} }

// Single reports whether r names one key.
func (r Range) Single() bool { return r.End == "" }

// Contains reports whether key is in r.
func (r Range) Contains(key string) bool {
	if r.Single() {
		return key == r.Key
	}
	return r.Key <= key && r.reaches(key)
}

// reaches reports whether a key is before the end of r, which is not a single key.
func (r Range) reaches(key string) bool { return r.End == open || key < r.End }

// half returns r as a range that has an end.
func (r Range) half() Range {
	if r.Single() {
		r.End = r.Key + "\x00"
	}
	return r
}

// Empty reports whether no key can be in r.
func (r Range) Empty() bool { return !r.half().reaches(r.Key) }

// Overlaps reports whether r and o, neither of which is empty, have keys in common.
func (r Range) Overlaps(o Range) bool { return r.half().reaches(o.Key) && o.half().reaches(r.Key) }

// Includes reports whether every key of o is in r.
func (r Range) Includes(o Range) bool {
	if o.Single() {
		return r.Contains(o.Key)
	}
	return r.Key <= o.Key && (r.End == open || o.End != open && o.End <= r.half().End)
}

// CoveredBy reports whether every key of r is in one of the ranges.
func (r Range) CoveredBy(ranges []Range) bool {
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b Range) int { return strings.Compare(a.Key, b.Key) })
	left := r
	for _, c := range sorted {
		if c.Contains(left.Key) {
			if c.Includes(left) {
				return true
			}
			left = Range{c.half().End, r.half().End}
		}
	}
	return false
}

// Holds evaluates a comparison of one key, nil for one that does not exist: its numbers are 0, and no comparison of its value
// holds.
func Holds(c *pb.Compare, kv *mvccpb.KeyValue) bool {
	if kv == nil && c.Target == pb.Compare_VALUE {
		return false
	}
	order := compare(c, kv)
	switch c.Result {
	case pb.Compare_EQUAL:
		return order == 0
	case pb.Compare_NOT_EQUAL:
		return order != 0
	case pb.Compare_GREATER:
		return order > 0
	case pb.Compare_LESS:
		return order < 0
	default:
		return true
	}
}

// compare compares a property of a key with that of the comparison, the zero value if it has none.
func compare(c *pb.Compare, kv *mvccpb.KeyValue) int {
	switch c.Target {
	case pb.Compare_VALUE:
		return bytes.Compare(kv.GetValue(), c.GetValue())
	case pb.Compare_CREATE:
		return cmp.Compare(kv.GetCreateRevision(), c.GetCreateRevision())
	case pb.Compare_MOD:
		return cmp.Compare(kv.GetModRevision(), c.GetModRevision())
	case pb.Compare_VERSION:
		return cmp.Compare(kv.GetVersion(), c.GetVersion())
	case pb.Compare_LEASE:
		return cmp.Compare(kv.GetLease(), c.GetLease())
	default:
		return 0
	}
}

// LimitBeforeSort returns how many keys etcd reads before it sorts and filters: one more than the limit, or 0 for all if a filter
// or a sort order needs them. A sort target without an order does not count: etcd then sorts only what it has read.
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
