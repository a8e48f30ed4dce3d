package namespace

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
)

// txn builds a transaction of the store. What is wrong with a part of it is kept
// for Commit, which is the first to return an error.
type txn struct {
	clientv3.Txn
	scope scope
	err   error
}

func (t *txn) If(cs ...clientv3.Cmp) clientv3.Txn {
	cs, err := translate(cs, t.scope.cmp)
	t.keep(err)
	t.Txn = t.Txn.If(cs...)
	return t
}

func (t *txn) Then(ops ...clientv3.Op) clientv3.Txn {
	ops, err := translate(ops, t.scope.op)
	t.keep(err)
	t.Txn = t.Txn.Then(ops...)
	return t
}

func (t *txn) Else(ops ...clientv3.Op) clientv3.Txn {
	ops, err := translate(ops, t.scope.op)
	t.keep(err)
	t.Txn = t.Txn.Else(ops...)
	return t
}

func (t *txn) keep(err error) {
	if t.err == nil {
		t.err = err
	}
}

func (t *txn) Commit() (*clientv3.TxnResponse, error) {
	if t.err != nil {
		return nil, t.err
	}
	resp, err := t.Txn.Commit()
	if err != nil {
		return nil, err
	}
	return (*clientv3.TxnResponse)(t.scope.txnResponse((*pb.TxnResponse)(resp))), nil
}
