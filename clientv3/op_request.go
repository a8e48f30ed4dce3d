package clientv3

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

func (op *Op) toRangeRequest() *pb.RangeRequest {
	r := &pb.RangeRequest{
		Key:               op.key,
		RangeEnd:          op.end,
		Limit:             op.limit,
		Revision:          op.rev,
		Serializable:      op.serializable,
		KeysOnly:          op.keysOnly,
		CountOnly:         op.countOnly,
		MinModRevision:    op.minModRev,
		MaxModRevision:    op.maxModRev,
		MinCreateRevision: op.minCreateRev,
		MaxCreateRevision: op.maxCreateRev,
	}
	if op.sort != nil {
		r.SortOrder = pb.RangeRequest_SortOrder(op.sort.Order)
		r.SortTarget = pb.RangeRequest_SortTarget(op.sort.Target)
	}
	return r
}

func (op *Op) toPutRequest() *pb.PutRequest {
	return &pb.PutRequest{
		Key:         op.key,
		Value:       op.val,
		Lease:       int64(op.leaseID),
		PrevKv:      op.prevKV,
		IgnoreValue: op.ignoreValue,
		IgnoreLease: op.ignoreLease,
	}
}

func (op *Op) toDeleteRequest() *pb.DeleteRangeRequest {
	return &pb.DeleteRangeRequest{Key: op.key, RangeEnd: op.end, PrevKv: op.prevKV}
}

// toTxnRequest shares the comparisons with op, which copied them when it was built.
func (op *Op) toTxnRequest() *pb.TxnRequest {
	cmps := make([]*pb.Compare, len(op.cmps))
	for i := range op.cmps {
		cmps[i] = op.cmps[i].GetCompare()
	}
	return &pb.TxnRequest{
		Compare: cmps,
		Success: toRequestOps(op.thenOps),
		Failure: toRequestOps(op.elseOps),
	}
}

func toRequestOps(ops []Op) []*pb.RequestOp {
	requests := make([]*pb.RequestOp, len(ops))
	for i := range ops {
		requests[i] = ops[i].toRequestOp()
	}
	return requests
}

func (op *Op) toRequestOp() *pb.RequestOp {
	switch op.t {
	case tRange:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: op.toRangeRequest()}}
	case tPut:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: op.toPutRequest()}}
	case tDeleteRange:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: op.toDeleteRequest()}}
	case tTxn:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: op.toTxnRequest()}}
	default:
		panic("Unknown Op")
	}
}
