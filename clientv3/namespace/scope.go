package namespace

import (
	"bytes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
)

// scope translates between a namespace, whose prefix it is, and the store.
type scope string

// noEnd is the range end that stands for all keys from the first one on, and the
// smallest key that there can be.
var noEnd = []byte{0}

func (s scope) key(key []byte) []byte { return append([]byte(s), key...) }

// end translates the end of a range. A range without an end must not leave the
// namespace.
func (s scope) end(end []byte) []byte {
	switch {
	case len(end) == 0:
		return nil
	case bytes.Equal(end, noEnd):
		return []byte(clientv3.GetPrefixRangeEnd(string(s)))
	default:
		return s.key(end)
	}
}

// op translates an operation. It has the error that the server has for an
// operation without a key.
func (s scope) op(op clientv3.Op) (clientv3.Op, error) {
	if op.IsTxn() {
		return s.opTxn(op)
	}
	if len(op.KeyBytes()) == 0 {
		return op, rpctypes.ErrEmptyKey
	}
	return s.keyed(op), nil
}

// keyed translates an operation that has a key.
func (s scope) keyed(op clientv3.Op) clientv3.Op {
	op.WithKeyBytes(s.key(op.KeyBytes()))
	op.WithRangeBytes(s.end(op.RangeBytes()))
	return op
}

func (s scope) opTxn(op clientv3.Op) (clientv3.Op, error) {
	cmps, thenOps, elseOps := op.Txn()
	cmps, err := translate(cmps, s.cmp)
	if err != nil {
		return op, err
	}
	if thenOps, err = translate(thenOps, s.op); err != nil {
		return op, err
	}
	if elseOps, err = translate(elseOps, s.op); err != nil {
		return op, err
	}
	return clientv3.OpTxn(cmps, thenOps, elseOps), nil
}

// cmp translates a comparison. One of a range may begin with the empty key, as
// Version("").WithPrefix() does to mean all keys.
func (s scope) cmp(cmp clientv3.Cmp) (clientv3.Cmp, error) {
	cmp = cmp.Clone()
	c := cmp.GetCompare()
	switch {
	case len(c.Key) > 0:
		c.Key = s.key(c.Key)
	case len(c.RangeEnd) > 0:
		c.Key = s.key(noEnd)
	default:
		return cmp, rpctypes.ErrEmptyKey
	}
	c.RangeEnd = s.end(c.RangeEnd)
	return cmp, nil
}

// translate returns a translation of each of from, or the first error.
func translate[T any](from []T, one func(T) (T, error)) ([]T, error) {
	to := make([]T, len(from))
	for i := range from {
		var err error
		if to[i], err = one(from[i]); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// The methods below translate responses from the store to the namespace. They
// return what they are given when there is no key in it.

func (s scope) kv(kv *mvccpb.KeyValue) *mvccpb.KeyValue {
	if kv == nil {
		return nil
	}
	return &mvccpb.KeyValue{
		Key:            bytes.TrimPrefix(kv.Key, []byte(s)),
		CreateRevision: kv.CreateRevision,
		ModRevision:    kv.ModRevision,
		Version:        kv.Version,
		Value:          kv.Value,
		Lease:          kv.Lease,
	}
}

func (s scope) kvs(kvs []*mvccpb.KeyValue) []*mvccpb.KeyValue {
	if len(kvs) == 0 {
		return kvs
	}
	own := make([]*mvccpb.KeyValue, len(kvs))
	for i := range kvs {
		own[i] = s.kv(kvs[i])
	}
	return own
}

func (s scope) rangeResponse(r *pb.RangeResponse) *pb.RangeResponse {
	if len(r.GetKvs()) == 0 {
		return r
	}
	return &pb.RangeResponse{Header: r.Header, Kvs: s.kvs(r.Kvs), More: r.More, Count: r.Count}
}

func (s scope) putResponse(r *pb.PutResponse) *pb.PutResponse {
	if r.GetPrevKv() == nil {
		return r
	}
	return &pb.PutResponse{Header: r.Header, PrevKv: s.kv(r.PrevKv)}
}

func (s scope) deleteResponse(r *pb.DeleteRangeResponse) *pb.DeleteRangeResponse {
	if len(r.GetPrevKvs()) == 0 {
		return r
	}
	return &pb.DeleteRangeResponse{Header: r.Header, Deleted: r.Deleted, PrevKvs: s.kvs(r.PrevKvs)}
}

func (s scope) txnResponse(r *pb.TxnResponse) *pb.TxnResponse {
	if len(r.GetResponses()) == 0 {
		return r
	}
	own := &pb.TxnResponse{Header: r.Header, Succeeded: r.Succeeded, Responses: make([]*pb.ResponseOp, len(r.Responses))}
	for i, op := range r.Responses {
		own.Responses[i] = s.responseOp(op)
	}
	return own
}

func (s scope) responseOp(op *pb.ResponseOp) *pb.ResponseOp {
	switch r := op.GetResponse().(type) {
	case *pb.ResponseOp_ResponseRange:
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: s.rangeResponse(r.ResponseRange)}}
	case *pb.ResponseOp_ResponsePut:
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: s.putResponse(r.ResponsePut)}}
	case *pb.ResponseOp_ResponseDeleteRange:
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: s.deleteResponse(r.ResponseDeleteRange)}}
	case *pb.ResponseOp_ResponseTxn:
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: s.txnResponse(r.ResponseTxn)}}
	default:
		return op
	}
}

func (s scope) opResponse(r clientv3.OpResponse) clientv3.OpResponse {
	switch {
	case r.Get() != nil:
		return (*clientv3.GetResponse)(s.rangeResponse((*pb.RangeResponse)(r.Get()))).OpResponse()
	case r.Put() != nil:
		return (*clientv3.PutResponse)(s.putResponse((*pb.PutResponse)(r.Put()))).OpResponse()
	case r.Del() != nil:
		return (*clientv3.DeleteResponse)(s.deleteResponse((*pb.DeleteRangeResponse)(r.Del()))).OpResponse()
	case r.Txn() != nil:
		return (*clientv3.TxnResponse)(s.txnResponse((*pb.TxnResponse)(r.Txn()))).OpResponse()
	default:
		return r
	}
}

func (s scope) events(events []*clientv3.Event) []*clientv3.Event {
	if len(events) == 0 {
		return events
	}
	own := make([]*clientv3.Event, len(events))
	for i, event := range events {
		own[i] = &clientv3.Event{Type: event.GetType(), Kv: s.kv(event.GetKv()), PrevKv: s.kv(event.GetPrevKv())}
	}
	return own
}
