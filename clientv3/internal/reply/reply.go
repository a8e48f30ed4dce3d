// Package reply makes parts of the responses that a client gives in place of the server.
package reply

import (
	"bytes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
)

// Header returns a copy of a header, with another revision.
func Header(h *pb.ResponseHeader, rev int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: h.GetClusterId(), MemberId: h.GetMemberId(), Revision: rev, RaftTerm: h.GetRaftTerm()}
}

// Selection returns the parts of a get that say which keys of its range it selects, and in which order.
func Selection(op clientv3.Op) *pb.RangeRequest {
	sort := op.SortOption()
	return &pb.RangeRequest{
		Limit: op.Limit(), SortOrder: pb.RangeRequest_SortOrder(sort.Order), SortTarget: pb.RangeRequest_SortTarget(sort.Target),
		MinModRevision: op.MinModRev(), MaxModRevision: op.MaxModRev(), MinCreateRevision: op.MinCreateRev(), MaxCreateRevision: op.MaxCreateRev(),
	}
}

// Key returns a copy of a key for the caller of a get. A get of keys only is served from etcd's index, which knows no
// leases, unless it had to sort by value.
func Key(kv *mvccpb.KeyValue, op clientv3.Op) *mvccpb.KeyValue {
	c := &mvccpb.KeyValue{
		CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version, Lease: kv.Lease,
	}
	if op.IsKeysOnly() {
		c.Key = bytes.Clone(kv.Key)
		if op.SortOption().Target != clientv3.SortByValue {
			c.Lease = 0
		}
		return c
	}
	n := len(kv.Key)
	both := make([]byte, n+len(kv.Value))
	copy(both, kv.Key)
	copy(both[n:], kv.Value)
	c.Key = both[:n:n]
	if len(kv.Value) > 0 {
		c.Value = both[n:]
	}
	return c
}
