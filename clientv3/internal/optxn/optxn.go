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

// Do executes one operation.
type Do func(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error)

type plain = clientv3.KV

// KV is a KV whose gets, puts, deletes and transactions are executed as one operation each.
type KV struct {
	plain // for Compact and GetStream
	do    Do
}

// Over returns a KV over kv whose operations do executes.
func Over(kv clientv3.KV, do Do) KV { return KV{kv, do} }

// Put puts a key by Do.
func (kv KV) Put(ctx context.Context, key, val string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	resp, err := kv.do(ctx, clientv3.OpPut(key, val, opts...))
	return resp.Put(), err
}

// Get gets keys by Do.
func (kv KV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := kv.do(ctx, clientv3.OpGet(key, opts...))
	return resp.Get(), err
}

// Delete deletes keys by Do.
func (kv KV) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	resp, err := kv.do(ctx, clientv3.OpDelete(key, opts...))
	return resp.Del(), err
}

// Do executes an operation.
func (kv KV) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	return kv.do(ctx, op)
}

// Txn returns a transaction whose Commit is one operation.
func (kv KV) Txn(ctx context.Context) clientv3.Txn {
	return New(func(op clientv3.Op) (clientv3.OpResponse, error) { return kv.do(ctx, op) })
}

// As returns the option that makes any operation the given one: options passed on as they came would be evaluated twice,
// and could not express a key.
func As(op clientv3.Op) clientv3.OpOption { return func(o *clientv3.Op) { *o = op } }

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

// errCompact is the error of a Compact of a fenced KV.
var errCompact = errors.New("etcdclient: Compact cannot be fenced: call it on the client")

// Fence is what the writes of a fenced KV are compared with.
type Fence interface {
	// Fence returns the comparison that holds while writes may be executed, and never again.
	Fence() clientv3.Cmp
	// Err returns nil while writes are sent, and then the error that they have.
	Err() error
}

// Fenced returns a KV over kv whose writes are transactions that compare fence.Fence, with the
// responses of the plain calls. Reads are those of kv. refused is called when the comparison did not
// hold; fence.Err returns an error from then on.
func Fenced(kv clientv3.KV, fence Fence, refused func()) clientv3.KV {
	f := &fencedKV{store: kv, fence: fence, refused: refused}
	f.KV = Over(kv, f.execute)
	return f
}

type fencedKV struct {
	KV      // for all but Compact
	store   clientv3.KV
	fence   Fence
	refused func()
}

func (kv *fencedKV) Compact(context.Context, int64, ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	return nil, errCompact
}

func (kv *fencedKV) execute(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	if op.IsGet() {
		return kv.store.Do(ctx, op)
	}
	if err := kv.fence.Err(); err != nil {
		return clientv3.OpResponse{}, err
	}
	ops := []clientv3.Op{op}
	cmps, thenOps, _ := op.Txn()
	unconditional := op.IsTxn() && len(cmps) == 0
	if unconditional {
		ops = thenOps
	}
	fence := kv.fence.Fence()
	txn := kv.store.Txn(ctx).If(fence).Then(ops...)
	if len(Writes(ops...)) == 0 { // with serializable gets alone a member that lags would compare its own state
		txn = txn.Else(clientv3.OpGet(string(fence.KeyBytes()), clientv3.WithKeysOnly()))
	}
	resp, err := txn.Commit()
	switch {
	case err != nil:
		return clientv3.OpResponse{}, err
	case !resp.Succeeded:
		kv.refused()
		return clientv3.OpResponse{}, kv.fence.Err()
	case unconditional:
		return resp.OpResponse(), nil
	}
	return Part(At(resp, 0), op, resp.Header)
}
