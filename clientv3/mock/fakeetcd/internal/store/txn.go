package store

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3/internal/semantics"
)

// plan is a transaction whose comparisons, nested ones included, were decided
// against the state before any of its writes.
type plan struct {
	succeeded bool
	ops       []*pb.RequestOp
	nested    map[*pb.RequestOp]*plan
}

// Txn answers a TxnRequest.
func (s *Store) Txn(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	p := s.decide(r)
	if err := s.checkPlan(p); err != nil {
		return nil, err
	}
	b := &batch{s: s}
	resp := b.run(p)
	b.commit()
	resp.Header.Revision = s.rev
	return resp, nil
}

func (s *Store) decide(r *pb.TxnRequest) *plan {
	p := &plan{succeeded: true, ops: r.Success, nested: make(map[*pb.RequestOp]*plan)}
	if slices.ContainsFunc(r.Compare, s.fails) {
		p.succeeded, p.ops = false, r.Failure
	}
	for _, op := range p.ops {
		if t := op.GetRequestTxn(); t != nil {
			p.nested[op] = s.decide(t)
		}
	}
	return p
}

// checkPlan refuses the transaction as a whole if the state before it does not
// allow one of its operations.
func (s *Store) checkPlan(p *plan) error {
	for _, op := range p.ops {
		var err error
		switch r := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			err = s.checkTxnRevision(r.RequestRange.Revision)
		case *pb.RequestOp_RequestPut:
			err = s.refusePut(r.RequestPut, s.rev)
		case *pb.RequestOp_RequestTxn:
			err = s.checkPlan(p.nested[op])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) run(p *plan) *pb.TxnResponse {
	resp := &pb.TxnResponse{Header: &pb.ResponseHeader{}, Succeeded: p.succeeded}
	for _, op := range p.ops {
		out := &pb.ResponseOp{}
		switch r := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			out.Response = &pb.ResponseOp_ResponseRange{ResponseRange: b.s.read(r.RequestRange, b.rev())}
		case *pb.RequestOp_RequestPut:
			out.Response = &pb.ResponseOp_ResponsePut{ResponsePut: b.put(r.RequestPut)}
		case *pb.RequestOp_RequestDeleteRange:
			out.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: b.deleteRange(r.RequestDeleteRange)}
		case *pb.RequestOp_RequestTxn:
			out.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: b.run(p.nested[op])}
		}
		resp.Responses = append(resp.Responses, out)
	}
	return resp
}

// fails reports whether a comparison is false for a key of its range.
// Without any key it is tried on a key of zeros, and is false for a value.
func (s *Store) fails(c *pb.Compare) bool {
	kvs := s.rangeAt(semantics.Of(c.Key, c.RangeEnd), s.rev)
	if len(kvs) == 0 {
		return !semantics.Holds(c, nil)
	}
	return slices.ContainsFunc(kvs, func(kv *mvccpb.KeyValue) bool { return !semantics.Holds(c, kv) })
}
