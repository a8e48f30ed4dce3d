// Package optxn has transactions that are executed as one [clientv3.Op].
package optxn

import (
	"context"
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
)

// txn collects the parts of a transaction. The embedded one only checks the order of calls.
type txn struct {
	clientv3.Txn
	do func(clientv3.Op) (clientv3.OpResponse, error)

	cmps             []clientv3.Cmp
	thenOps, elseOps []clientv3.Op
}

// checks has transactions that check the order of calls as the client's do. None of them is sent.
var checks = clientv3.NewKVFromKVClient(nil, nil)

// New returns a transaction whose Commit calls do. As in the client's, what is passed may change afterwards.
func New(do func(clientv3.Op) (clientv3.OpResponse, error)) clientv3.Txn {
	return &txn{Txn: checks.Txn(context.Background()), do: do}
}

func (t *txn) If(cs ...clientv3.Cmp) clientv3.Txn {
	t.Txn, t.cmps = t.Txn.If(cs...), make([]clientv3.Cmp, len(cs))
	for i := range cs {
		t.cmps[i] = cs[i].Clone()
	}
	return t
}

func (t *txn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.Txn, t.thenOps = t.Txn.Then(ops...), slices.Clone(ops)
	return t
}

func (t *txn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.Txn, t.elseOps = t.Txn.Else(ops...), slices.Clone(ops)
	return t
}

func (t *txn) Commit() (*clientv3.TxnResponse, error) {
	resp, err := t.do(clientv3.OpTxn(t.cmps, t.thenOps, t.elseOps))
	return resp.Txn(), err
}

// errMismatch says that a response to a transaction does not have the parts that were requested.
var errMismatch = errors.New("etcdclient: the response to a transaction does not match its request")

// Part returns the response to an operation of a transaction as if it had been sent alone: with the header of the whole.
// It fails if the response is missing or of another kind.
func Part(part *pb.ResponseOp, op clientv3.Op, header *pb.ResponseHeader) (clientv3.OpResponse, error) {
	get, put, del, txn := part.GetResponseRange(), part.GetResponsePut(), part.GetResponseDeleteRange(), part.GetResponseTxn()
	switch {
	case op.IsGet() && get != nil:
		get.Header = header
		return (*clientv3.GetResponse)(get).OpResponse(), nil
	case op.IsPut() && put != nil:
		put.Header = header
		return (*clientv3.PutResponse)(put).OpResponse(), nil
	case op.IsDelete() && del != nil:
		del.Header = header
		return (*clientv3.DeleteResponse)(del).OpResponse(), nil
	case op.IsTxn() && txn != nil:
		txn.Header = header
		return (*clientv3.TxnResponse)(txn).OpResponse(), nil
	}
	return clientv3.OpResponse{}, errMismatch
}

// Message is a response of any kind.
type Message interface {
	proto.Message
	GetHeader() *pb.ResponseHeader
}

// Response returns the message of a response.
func Response(r clientv3.OpResponse) Message {
	switch {
	case r.Get() != nil:
		return (*pb.RangeResponse)(r.Get())
	case r.Put() != nil:
		return (*pb.PutResponse)(r.Put())
	case r.Del() != nil:
		return (*pb.DeleteRangeResponse)(r.Del())
	default:
		return (*pb.TxnResponse)(r.Txn())
	}
}

// At returns the i-th response of a transaction, nil if there is none.
func At(resp *clientv3.TxnResponse, i int) *pb.ResponseOp {
	if i < len(resp.Responses) {
		return resp.Responses[i]
	}
	return nil
}

// Writes returns the puts and deletes among operations, also those in either branch of a transaction.
func Writes(ops ...clientv3.Op) (writes []clientv3.Op) {
	for _, op := range ops {
		switch {
		case op.IsTxn():
			_, thenOps, elseOps := op.Txn()
			writes = append(writes, Writes(thenOps...)...)
			writes = append(writes, Writes(elseOps...)...)
		case op.IsPut() || op.IsDelete():
			writes = append(writes, op)
		}
	}
	return writes
}

// Key returns the first key of the i-th response, a get's, or nil.
func Key(resp *clientv3.TxnResponse, i int) *mvccpb.KeyValue {
	if kvs := At(resp, i).GetResponseRange().GetKvs(); len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}
