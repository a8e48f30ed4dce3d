package batch

import (
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/reply"
)

// do sends the batch: one operation as it is, several in a Txn. The responses are in the
// order of the calls, and as if the operations had been sent alone.
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
		resp, err := optxn.Part(parts[i], op, reply.Header(txn.Header, txn.Header.GetRevision()))
		if err != nil {
			return nil, fmt.Errorf("batch: the response to operation %d of a Txn is of another kind", i)
		}
		responses[i] = resp
	}
	return responses, nil
}

// copyOf returns a response that shares no memory with resp. All bytes are in one buffer, each
// slice with no capacity beyond its end: a get may return many keys.
func copyOf(resp *clientv3.GetResponse) *clientv3.GetResponse {
	out := &clientv3.GetResponse{Header: proto.CloneOf(resp.Header), More: resp.More, Count: resp.Count}
	buf := make([]byte, 0, sizeOf([]clientv3.OpResponse{resp.OpResponse()}))
	own := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		from := len(buf)
		buf = append(buf, b...)
		return buf[from:len(buf):len(buf)]
	}
	kvs := make([]mvccpb.KeyValue, len(resp.Kvs))
	out.Kvs = slices.Grow(out.Kvs, len(kvs))
	for i, kv := range resp.Kvs {
		c := &kvs[i]
		c.Key, c.Value = own(kv.Key), own(kv.Value)
		c.CreateRevision, c.ModRevision, c.Version, c.Lease = kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease
		out.Kvs = append(out.Kvs, c)
	}
	return out
}

// sizeOf returns how many bytes of keys and values gets have returned.
func sizeOf(responses []clientv3.OpResponse) int {
	sum := 0
	for _, r := range responses {
		for _, kv := range (*pb.RangeResponse)(r.Get()).GetKvs() {
			sum += len(kv.Key) + len(kv.Value)
		}
	}
	return sum
}
