package leasing

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
)

// txn is a transaction. The embedded one checks the order of calls, and executes
// the transaction if it only reads.
type txn struct {
	clientv3.Txn
	kv  *kv
	ctx context.Context

	cmps             []clientv3.Cmp
	thenOps, elseOps []clientv3.Op
}

func (k *kv) Txn(ctx context.Context) clientv3.Txn {
	return &txn{Txn: k.remote.Txn(ctx), kv: k, ctx: ctx}
}

func (t *txn) If(cs ...clientv3.Cmp) clientv3.Txn {
	t.Txn = t.Txn.If(cs...)
	for _, c := range cs {
		t.cmps = append(t.cmps, c.Clone())
	}
	return t
}

func (t *txn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Then(ops...)
	t.thenOps = append(t.thenOps, ops...)
	return t
}

func (t *txn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Else(ops...)
	t.elseOps = append(t.elseOps, ops...)
	return t
}

func (t *txn) Commit() (*clientv3.TxnResponse, error) {
	if err := t.ctx.Err(); err != nil {
		return nil, err
	}
	if resp := t.kv.cache.txn(t.cmps, t.thenOps, t.elseOps); resp != nil {
		return resp, nil
	}
	if len(writesIn(t.thenOps)) == 0 && len(writesIn(t.elseOps)) == 0 {
		resp, err := t.Txn.Commit()
		if err != nil {
			return nil, err
		}
		t.kv.cache.observe(resp.Header)
		return resp, nil
	}
	resp, err := t.kv.write(t.ctx, clientv3.OpTxn(t.cmps, t.thenOps, t.elseOps))
	if err != nil {
		return nil, err
	}
	inner := resp.Responses[0].GetResponseTxn()
	inner.Header = resp.Header
	return (*clientv3.TxnResponse)(inner), nil
}

// txn serves a transaction if the cache can decide its comparisons and serve its
// reads, all at one moment. It returns nil if it cannot.
func (c *cache) txn(cmps []clientv3.Cmp, thenOps, elseOps []clientv3.Op) *clientv3.TxnResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	succeeded, ok := c.decideLocked(cmps)
	if !ok || c.header == nil {
		return nil
	}
	ops := thenOps
	if !succeeded {
		ops = elseOps
	}
	responses := make([]*pb.ResponseOp, len(ops))
	for i, op := range ops {
		if !cacheable(op) {
			return nil
		}
		e := c.readableLocked(string(op.KeyBytes()))
		if e == nil {
			return nil
		}
		// The headers in a transaction's response have only a revision.
		found := answer(&pb.ResponseHeader{Revision: c.header.GetRevision()}, e.item, op)
		responses[i] = &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: (*pb.RangeResponse)(found)}}
	}
	if !c.servingLocked() {
		return nil
	}
	return &clientv3.TxnResponse{
		Header:    copyOf(c.header),
		Succeeded: succeeded,
		Responses: responses,
	}
}

// decideLocked evaluates the comparisons that the cache can serve: one that does
// not hold decides, whatever the others are.
func (c *cache) decideLocked(cmps []clientv3.Cmp) (succeeded, known bool) {
	known = true
	for i := range cmps {
		m := cmps[i].GetCompare()
		e := c.readableLocked(string(m.Key))
		switch {
		case len(m.RangeEnd) > 0 || e == nil:
			known = false
		case !holds(m, e.item):
			return false, true
		}
	}
	return true, known
}
