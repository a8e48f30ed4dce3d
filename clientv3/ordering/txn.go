package ordering

import (
	"context"
	"slices"

	"github.com/quorate/quorate/clientv3"
)

// txn collects a transaction and executes it as one operation.
type txn struct {
	kv  *kvOrdering
	ctx context.Context

	// shape is never committed. It panics on invalid calls, as the wrapped KV
	// would.
	shape clientv3.Txn

	cmps    []clientv3.Cmp
	thenOps []clientv3.Op
	elseOps []clientv3.Op
}

func (t *txn) If(cs ...clientv3.Cmp) clientv3.Txn {
	t.shape = t.shape.If(cs...)
	t.cmps = make([]clientv3.Cmp, len(cs))
	for i := range cs {
		t.cmps[i] = cs[i].Clone()
	}
	return t
}

func (t *txn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.shape = t.shape.Then(ops...)
	t.thenOps = slices.Clone(ops)
	return t
}

func (t *txn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.shape = t.shape.Else(ops...)
	t.elseOps = slices.Clone(ops)
	return t
}

func (t *txn) Commit() (*clientv3.TxnResponse, error) {
	resp, err := t.kv.Do(t.ctx, clientv3.OpTxn(t.cmps, t.thenOps, t.elseOps))
	return resp.Txn(), err
}
