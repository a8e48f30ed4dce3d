package channel

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/retry"
)

// traits are what a call asks of the endpoint that serves it, and what may be
// done while its answer is awaited.
type traits struct {
	need  balancer.Need
	lane  balancer.Lane
	class string // "" for the method's own
	// hedged calls may be sent to a second endpoint, see hedging.
	hedged bool
	// prompt writes take no longer than a commit. They are given up when the cluster
	// has gone on without them, see writes.
	prompt bool
}

// Classes of calls that take equally long. Other calls have their method's.
const (
	classGet               = "get"
	classRange             = "range"
	classSerializableGet   = "serializable get"
	classSerializableRange = "serializable range"
	classReadTxn           = "read-only txn"
	classSerializableTxn   = "serializable txn"
)

// traitsOf returns the traits of a call. req is nil for a stream, of which
// nothing is known yet but its method.
func traitsOf(method string, req any) traits {
	switch method {
	case pb.KV_Range_FullMethodName:
		return traitsOfRange(req)
	case pb.KV_Txn_FullMethodName:
		return traitsOfTxn(req)
	case pb.Cluster_MemberList_FullMethodName:
		if list, ok := req.(*pb.MemberListRequest); ok && !list.GetLinearizable() {
			return traits{need: balancer.Local, hedged: true}
		}
		return traits{hedged: true}
	case pb.Lease_LeaseTimeToLive_FullMethodName, pb.Lease_LeaseLeases_FullMethodName:
		return traits{hedged: true}
	case pb.Maintenance_Status_FullMethodName, pb.Maintenance_Hash_FullMethodName,
		pb.Maintenance_HashKV_FullMethodName, pb.Maintenance_Defragment_FullMethodName:
		return traits{need: balancer.Local}
	case pb.Maintenance_Snapshot_FullMethodName:
		return traits{need: balancer.Local, lane: balancer.Bulk}
	case pb.KV_RangeStream_FullMethodName:
		return traits{lane: balancer.Bulk}
	case pb.Watch_Watch_FullMethodName, pb.Lease_LeaseKeepAlive_FullMethodName:
		return traits{lane: balancer.Streams}
	case pb.KV_Compact_FullMethodName:
		return traits{} // a physical one takes as long as there is to compact
	default:
		return traits{prompt: true}
	}
}

func traitsOfRange(req any) traits {
	r, ok := req.(*pb.RangeRequest)
	if !ok {
		return traits{}
	}
	t := traits{hedged: true, class: classRange}
	if len(r.GetRangeEnd()) == 0 {
		t.class = classGet
	}
	if r.GetSerializable() {
		t.need = balancer.Local
		if t.class == classGet {
			t.class = classSerializableGet
		} else {
			t.class = classSerializableRange
		}
	}
	return t
}

func traitsOfTxn(req any) traits {
	switch {
	case retry.SafetyOf(pb.KV_Txn_FullMethodName, req) != retry.Repeatable:
		return traits{prompt: true}
	case onlySerializable(req.(*pb.TxnRequest)):
		return traits{need: balancer.Local, hedged: true, class: classSerializableTxn}
	default:
		return traits{hedged: true, class: classReadTxn}
	}
}

// onlySerializable reports whether a member answers a transaction from its own
// store: if every operation is a serializable range. etcd takes one that holds
// another transaction for linearizable, whatever is in that.
func onlySerializable(txn *pb.TxnRequest) bool {
	for _, branch := range [2][]*pb.RequestOp{txn.GetSuccess(), txn.GetFailure()} {
		for _, op := range branch {
			if r := op.GetRequestRange(); r == nil || !r.GetSerializable() {
				return false
			}
		}
	}
	return true
}
