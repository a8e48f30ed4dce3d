package batch

import (
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
)

// do sends the batch: one operation as it is, several in a Txn. The responses are those that
// the operations have when they are sent alone, in the order of the calls.
func (b *batch) do(kv clientv3.KV) ([]clientv3.OpResponse, error) {
	if len(b.calls) == 1 {
		resp, err := kv.Do(b.ctx, b.calls[0].op)
		return []clientv3.OpResponse{resp}, err
	}
	ops := make([]clientv3.Op, len(b.calls))
	for i, c := range b.calls {
		ops[i] = c.op
	}
	resp, err := kv.Do(b.ctx, clientv3.OpTxn(nil, ops, nil))
	if err != nil {
		return nil, err
	}
	return split(resp.Txn(), ops)
}

func (b *batch) bytes() int {
	sum := 0
	for _, c := range b.calls {
		sum += c.bytes
	}
	return sum
}

// split divides the response to a Txn. The header of a part has the revision only, so
// each gets a copy of the whole.
func split(txn *clientv3.TxnResponse, ops []clientv3.Op) ([]clientv3.OpResponse, error) {
	parts := (*pb.TxnResponse)(txn).GetResponses()
	if len(parts) != len(ops) {
		return nil, fmt.Errorf("batch: the response to a Txn of %d operations has %d", len(ops), len(parts))
	}
	responses := make([]clientv3.OpResponse, len(ops))
	for i, op := range ops {
		part, header := parts[i], headerOf(txn.Header)
		get, put, del := part.GetResponseRange(), part.GetResponsePut(), part.GetResponseDeleteRange()
		switch {
		case op.IsGet() && get != nil:
			get.Header = header
			responses[i] = (*clientv3.GetResponse)(get).OpResponse()
		case op.IsPut() && put != nil:
			put.Header = header
			responses[i] = (*clientv3.PutResponse)(put).OpResponse()
		case op.IsDelete() && del != nil:
			del.Header = header
			responses[i] = (*clientv3.DeleteResponse)(del).OpResponse()
		default:
			return nil, fmt.Errorf("batch: the response to operation %d of a Txn is of another kind", i)
		}
	}
	return responses, nil
}

func headerOf(h *pb.ResponseHeader) *pb.ResponseHeader {
	if h == nil {
		return nil
	}
	return &pb.ResponseHeader{ClusterId: h.ClusterId, MemberId: h.MemberId, Revision: h.Revision, RaftTerm: h.RaftTerm}
}

// copyOf returns a response that shares no memory with resp. All bytes are in one
// buffer, each slice with no capacity beyond its end.
func copyOf(resp *clientv3.GetResponse) *clientv3.GetResponse {
	out := &clientv3.GetResponse{Header: headerOf(resp.Header), More: resp.More, Count: resp.Count}
	if resp.Kvs == nil {
		return out
	}
	buf := make([]byte, 0, sizeOfKvs(resp.Kvs))
	own := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		from := len(buf)
		buf = append(buf, b...)
		return buf[from:len(buf):len(buf)]
	}
	kvs := make([]mvccpb.KeyValue, len(resp.Kvs))
	out.Kvs = make([]*mvccpb.KeyValue, len(resp.Kvs))
	for i, from := range resp.Kvs {
		to := &kvs[i]
		to.Key, to.Value = own(from.Key), own(from.Value)
		to.CreateRevision, to.ModRevision, to.Version, to.Lease = from.CreateRevision, from.ModRevision, from.Version, from.Lease
		out.Kvs[i] = to
	}
	return out
}

// sizeOf returns how many bytes of keys and values gets have returned.
func sizeOf(responses []clientv3.OpResponse) int {
	sum := 0
	for _, r := range responses {
		sum += sizeOfKvs((*pb.RangeResponse)(r.Get()).GetKvs())
	}
	return sum
}

func sizeOfKvs(kvs []*mvccpb.KeyValue) int {
	sum := 0
	for _, kv := range kvs {
		sum += len(kv.Key) + len(kv.Value)
	}
	return sum
}
