package behaviours_test

import (
	"bytes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// txn draws a transaction. It either may put keys or may delete every key from one on: both together crash etcd 3.7.3,
// as the package comment says.
func (g *generator) txn() *pb.TxnRequest { return g.nestedTxn(txnDepth, !g.oneIn(4)) }

func (g *generator) nestedTxn(depth int, mayPut bool) *pb.TxnRequest {
	r := &pb.TxnRequest{Success: g.ops(depth, mayPut), Failure: g.ops(depth, mayPut)}
	for range g.IntN(3) {
		r.Compare = append(r.Compare, g.compare())
	}
	return r
}

func (g *generator) ops(depth int, mayPut bool) []*pb.RequestOp {
	var ops []*pb.RequestOp
	for range g.IntN(4) {
		ops = append(ops, g.op(depth, mayPut))
	}
	return ops
}

func (g *generator) op(depth int, mayPut bool) *pb.RequestOp {
	switch n := g.IntN(12); {
	case n < 4 && mayPut:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: g.put()}}
	case n < 7:
		d := g.deletion()
		if mayPut && bytes.Equal(d.RangeEnd, fromKey()) {
			d.RangeEnd = g.letter('a', numKeys+1)
		}
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: d}}
	case n < 9 && depth > 0:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: g.nestedTxn(depth-1, mayPut)}}
	default:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: g.read()}}
	}
}

func (g *generator) compare() *pb.Compare {
	c := &pb.Compare{
		Key: g.key(), RangeEnd: g.rangeEnd(),
		Result: pb.Compare_CompareResult(g.IntN(len(pb.Compare_CompareResult_name))),
		Target: pb.Compare_CompareTarget(g.IntN(len(pb.Compare_CompareTarget_name))),
	}
	switch c.Target {
	case pb.Compare_VERSION:
		c.TargetUnion = &pb.Compare_Version{Version: g.Int64N(4)}
	case pb.Compare_CREATE:
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: g.near()}
	case pb.Compare_MOD:
		c.TargetUnion = &pb.Compare_ModRevision{ModRevision: g.near()}
	case pb.Compare_VALUE:
		c.TargetUnion = &pb.Compare_Value{Value: g.value()}
	case pb.Compare_LEASE:
		c.TargetUnion = &pb.Compare_Lease{Lease: g.Int64N(numLeases + 1)}
	}
	return c
}
