package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/reply"
)

// batch is an RPC that calls share.
type batch struct {
	calls   []*call
	ctx     context.Context
	cancel  context.CancelFunc
	callers int // callers that wait for it; guarded by dispatcher.mu
}

// open returns the context of a batch. It ends soon after the last deadline of its callers, if all have one: until
// then a group is tried again while the cluster refuses it, as each of its writes would be. It ends at once when the
// last caller leaves; each leaves with the error of its own context.
func (b *batch) open() (context.Context, context.CancelFunc) {
	var last time.Time
	for _, c := range b.calls {
		if c.until.IsZero() {
			return context.WithCancel(context.Background())
		}
		if c.until.After(last) {
			last = c.until
		}
	}
	return context.WithDeadline(context.Background(), last.Add(afterLast))
}

// takeLocked takes the next batch out of the queue. No call can join it from here on,
// and it is sent from here on.
func (d *dispatcher) takeLocked() *batch {
	ops := d.opsLocked()
	b := &batch{calls: make([]*call, 0, min(ops, len(d.queue)))}
	taken, bytes := 0, 0
	for _, c := range d.queue {
		if c.callers > 0 {
			full := len(b.calls) == ops || len(b.calls) > 0 && bytes+c.bytes > d.maxBytes
			if full {
				break
			}
			delete(d.waiting, c.id)
			b.calls = append(b.calls, c)
			b.callers += c.callers
			bytes += c.bytes
		}
		d.queued -= c.bytes
		taken++
	}
	d.queue = slices.Delete(d.queue, 0, taken)
	return b
}

// run sends a batch and passes the results to its callers. The batch counts as callers calls in flight.
func (d *dispatcher) run(b *batch, callers int) {
	began := time.Now()
	responses, err := b.do(d.kv)
	took := time.Since(began)
	b.cancel()
	d.mu.Lock()
	d.learnLocked(b, responses, err)
	switch {
	case d.kind == grouped && (isDefinite(err) || isTooLarge(err)):
		d.counted.refused++
		d.divideLocked(b)
	case d.kind == joined && err != nil:
		d.counted.refused++
		b.finish(alone, nil, nil)
	default:
		b.finish(answered, responses, err)
	}
	d.mu.Unlock()

	for range yields {
		runtime.Gosched()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endedLocked(callers, took)
}

// finish ends the calls of a batch.
func (b *batch) finish(e ending, responses []clientv3.OpResponse, err error) {
	for i, c := range b.calls {
		c.ending, c.err = e, err
		if responses != nil {
			c.resp, c.shared = responses[i], c.callers > 1
		}
		close(c.done)
	}
}

// divideLocked sends the writes of a refused group again, in parts.
func (d *dispatcher) divideLocked(b *batch) {
	left := slices.DeleteFunc(b.calls, func(c *call) bool { return c.callers == 0 })
	for part := range slices.Chunk(left, max((len(left)+parts-1)/parts, 1)) {
		d.startLocked(&batch{calls: part, callers: len(part)})
	}
}

// learnLocked adapts the bounds to the result of a batch.
func (d *dispatcher) learnLocked(b *batch, responses []clientv3.OpResponse, err error) {
	n := len(b.calls)
	switch {
	case err == nil && d.kind == joined:
		d.perRead = max(sizeOf(responses)/n, d.perRead-d.perRead/8)
	case errors.Is(err, rpctypes.ErrTooManyOps):
		d.maxOps = min(d.maxOps, max(n/2, 1))
	case isTooLarge(err):
		d.maxBytes = min(d.maxBytes, b.bytes()/2)
	case d.kind == joined && status.Code(err) == codes.ResourceExhausted: // the response is too large to be received
		d.perRead = max(d.perRead, 2*maxResponseBytes/n)
	}
}

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
