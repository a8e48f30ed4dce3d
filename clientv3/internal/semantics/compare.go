package semantics

import (
	"bytes"
	"cmp"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

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
