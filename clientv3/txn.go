package clientv3

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Txn builds and executes one transaction:
//
//	resp, err := kv.Txn(ctx).
//		If(clientv3.Compare(clientv3.Value("k1"), ">", "v1")).
//		Then(clientv3.OpPut("k2", "v2")).
//		Else(clientv3.OpPut("k3", "v3")).
//		Commit()
//
// If, Then and Else are optional. Each may be called at most once, in this order;
// anything else panics.
type Txn interface {
	// If sets the comparisons. If all of them hold, or there are none, the
	// operations of Then are executed, otherwise those of Else.
	If(cs ...Cmp) Txn

	// Then sets the operations executed if all comparisons hold.
	Then(ops ...Op) Txn

	// Else sets the operations executed if a comparison does not hold.
	Else(ops ...Op) Txn

	// Commit sends the transaction. A read-only transaction is retried after a
	// fault. One that writes is executed at most once; if its outcome is unknown
	// the error is a *retry.UnknownOutcomeError.
	Commit() (*TxnResponse, error)
}

type txn struct {
	kv  *kv
	ctx context.Context

	// mu guards what follows.
	mu     sync.Mutex
	called [len(txnPartNames)]bool
	req    pb.TxnRequest
}

// txnPart is a part of a transaction, in the order in which they are set.
type txnPart int

const (
	txnIf txnPart = iota
	txnThen
	txnElse
)

var txnPartNames = [...]string{txnIf: "If", txnThen: "Then", txnElse: "Else"}

// beginLocked panics if the part, or a later one, is already set.
func (t *txn) beginLocked(part txnPart) {
	if t.called[part] {
		panic("cannot call " + txnPartNames[part] + " twice!")
	}
	for later := part + 1; later <= txnElse; later++ {
		if t.called[later] {
			panic("cannot call " + txnPartNames[part] + " after " + txnPartNames[later] + "!")
		}
	}
	t.called[part] = true
}

func (t *txn) If(cs ...Cmp) Txn {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beginLocked(txnIf)
	t.req.Compare = make([]*pb.Compare, len(cs))
	for i := range cs {
		t.req.Compare[i] = copyOrNewCompare(cs[i].c)
	}
	return t
}

func (t *txn) Then(ops ...Op) Txn {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beginLocked(txnThen)
	t.req.Success = toRequestOps(ops)
	return t
}

func (t *txn) Else(ops ...Op) Txn {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beginLocked(txnElse)
	t.req.Failure = toRequestOps(ops)
	return t
}

func (t *txn) Commit() (*TxnResponse, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	resp, err := invoke(t.ctx, t.kv.remote.Txn, &t.req, t.kv.callOpts)
	return (*TxnResponse)(resp), err
}
