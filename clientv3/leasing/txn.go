package leasing

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/reply"
	"github.com/quorate/quorate/clientv3/internal/semantics"
)

func (k *kv) txn(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	if err := ctx.Err(); err != nil {
		return clientv3.OpResponse{}, err
	}
	cmps, thenOps, elseOps := op.Txn()
	if resp := k.cache.txn(cmps, thenOps, elseOps); resp != nil {
		return resp.OpResponse(), nil
	}
	if len(optxn.Writes(op)) == 0 {
		resp, err := k.remote.Do(ctx, op)
		if err != nil {
			return clientv3.OpResponse{}, err
		}
		k.cache.observe(resp.Txn().Header)
		return resp, nil
	}
	return k.write(ctx, op)
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
		Header:    reply.Header(c.header, c.header.GetRevision()),
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
		case !semantics.Holds(m, e.item):
			return false, true
		}
	}
	return true, known
}
