package leasing

import (
	"bytes"
	"cmp"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// holds evaluates a comparison of one key as the server does. A nil item is a key
// that does not exist: its numbers are 0, and no comparison of its value holds.
func holds(c *pb.Compare, item *mvccpb.KeyValue) bool {
	if item == nil {
		if c.Target == pb.Compare_VALUE {
			return false
		}
		item = &mvccpb.KeyValue{}
	}
	order := compareTarget(c, item)
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

// compareTarget compares the key's property with the comparison's value. A
// comparison without a value compares with the zero value.
func compareTarget(c *pb.Compare, item *mvccpb.KeyValue) int {
	switch c.Target {
	case pb.Compare_VALUE:
		return bytes.Compare(item.Value, c.GetValue())
	case pb.Compare_CREATE:
		return cmp.Compare(item.CreateRevision, c.GetCreateRevision())
	case pb.Compare_MOD:
		return cmp.Compare(item.ModRevision, c.GetModRevision())
	case pb.Compare_VERSION:
		return cmp.Compare(item.Version, c.GetVersion())
	case pb.Compare_LEASE:
		return cmp.Compare(item.Lease, c.GetLease())
	default:
		return 0
	}
}
