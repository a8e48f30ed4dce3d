package store

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/internal/semantics"
)

// batch is the writes that share one revision. The store is locked meanwhile.
type batch struct {
	s       *Store
	changes int
}

// rev is the revision that reads inside the batch see.
func (b *batch) rev() int64 {
	if b.changes > 0 {
		return b.s.rev + 1
	}
	return b.s.rev
}

// commit makes the batch visible, if it changed anything.
func (b *batch) commit() {
	if b.changes > 0 {
		b.s.rev++
		b.s.notify()
	}
}

func (b *batch) record(c change) {
	key := string(c.kv.Key)
	b.s.keys[key] = append(b.s.keys[key], c)
	b.s.log = append(b.s.log, c)
	b.changes++
}

// Put answers a PutRequest.
func (s *Store) Put(r *pb.PutRequest) (*pb.PutResponse, error) {
	if err := s.refusePut(r, s.rev); err != nil {
		return nil, err
	}
	b := &batch{s: s}
	defer b.commit()
	return b.put(r), nil
}

// refusePut refuses a put that the state at rev does not allow.
func (s *Store) refusePut(r *pb.PutRequest, rev int64) error {
	if r.Lease != 0 && s.leases[r.Lease] == nil {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	if (r.IgnoreValue || r.IgnoreLease) && s.at(string(r.Key), rev) == nil {
		return rpctypes.ErrGRPCKeyNotFound
	}
	return nil
}

func (b *batch) put(r *pb.PutRequest) *pb.PutResponse {
	key := string(r.Key)
	prev := b.s.at(key, b.rev())
	rev := b.s.rev + 1
	kv := &mvccpb.KeyValue{
		Key: []byte(key), Value: append([]byte(nil), r.Value...), Lease: r.Lease,
		CreateRevision: rev, ModRevision: rev, Version: 1,
	}
	if prev != nil {
		kv.CreateRevision, kv.Version = prev.CreateRevision, prev.Version+1
		if r.IgnoreValue {
			kv.Value = prev.Value
		}
		if r.IgnoreLease {
			kv.Lease = prev.Lease
		}
		b.s.detach(prev)
	}
	b.s.attach(kv)
	b.s.puts[key]++
	b.record(change{kv: kv})

	resp := &pb.PutResponse{Header: &pb.ResponseHeader{Revision: rev}}
	if r.PrevKv {
		resp.PrevKv = proto.CloneOf(prev)
	}
	return resp
}

// DeleteRange answers a DeleteRangeRequest.
func (s *Store) DeleteRange(r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	b := &batch{s: s}
	defer b.commit()
	return b.deleteRange(r), nil
}

func (b *batch) deleteRange(r *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	kvs := b.s.rangeAt(semantics.Of(r.Key, r.RangeEnd), b.rev())
	for _, kv := range kvs {
		b.delete(kv)
	}
	resp := &pb.DeleteRangeResponse{Header: &pb.ResponseHeader{Revision: b.rev()}, Deleted: int64(len(kvs))}
	if r.PrevKv {
		resp.PrevKvs = cloneAll(kvs)
	}
	return resp
}

func (b *batch) delete(kv *mvccpb.KeyValue) {
	b.s.detach(kv)
	b.record(change{kv: &mvccpb.KeyValue{Key: kv.Key, ModRevision: b.s.rev + 1}, deleted: true})
}

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
