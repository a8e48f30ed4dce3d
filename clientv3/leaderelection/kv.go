package leaderelection

import (
	"context"
	"errors"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
)

// errCompact is the error of a Compact of [Term.KV].
var errCompact = errors.New("leaderelection: Compact cannot be fenced: call it on the client")

// KV returns a KV over the client's, whose writes are executed only while the term lasts. Puts,
// deletes and transactions are sent as transactions that compare [Term.Fence]; their responses
// are those of the plain calls. After the term they fail with a [*TermEndedError] and are not
// executed, also those that reach a server late. A call after [Term.Deadline] is not sent.
//
// Gets and GetStreams are the client's. A transaction that only reads is fenced, too. One with
// comparisons is nested: it needs etcd 3.3 or newer. Compact cannot be fenced and is refused. An
// unknown outcome remains one: see *retry.UnknownOutcomeError.
func (t *Term) KV() clientv3.KV { return &fencedKV{KV: t.client.KV, term: t} }

type fencedKV struct {
	clientv3.KV
	term *Term
}

func (kv *fencedKV) Put(ctx context.Context, key, val string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	resp, err := kv.Do(ctx, clientv3.OpPut(key, val, opts...))
	return resp.Put(), err
}

func (kv *fencedKV) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	resp, err := kv.Do(ctx, clientv3.OpDelete(key, opts...))
	return resp.Del(), err
}

func (kv *fencedKV) Compact(context.Context, int64, ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	return nil, errCompact
}

func (kv *fencedKV) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	if op.IsGet() {
		return kv.KV.Do(ctx, op)
	}
	if err := kv.term.Err(); err != nil {
		return clientv3.OpResponse{}, err
	}
	ops := []clientv3.Op{op}
	cmps, thenOps, _ := op.Txn()
	unconditional := op.IsTxn() && len(cmps) == 0
	if unconditional {
		ops = thenOps
	}
	resp, err := kv.KV.Txn(ctx).If(kv.term.Fence()).Then(ops...).Commit()
	switch {
	case err != nil:
		return clientv3.OpResponse{}, err
	case !resp.Succeeded:
		kv.term.end(ErrKeyDeleted)
		return clientv3.OpResponse{}, kv.term.Err()
	case unconditional:
		return resp.OpResponse(), nil
	}
	return plain(resp), nil
}

// plain returns the response to the one operation of a transaction. The header of a part has
// the revision only, so it gets that of the whole.
func plain(resp *clientv3.TxnResponse) clientv3.OpResponse {
	part := resp.Responses[0]
	if put := part.GetResponsePut(); put != nil {
		put.Header = resp.Header
		return (*clientv3.PutResponse)(put).OpResponse()
	}
	if del := part.GetResponseDeleteRange(); del != nil {
		del.Header = resp.Header
		return (*clientv3.DeleteResponse)(del).OpResponse()
	}
	txn := part.GetResponseTxn()
	txn.Header = resp.Header
	return (*clientv3.TxnResponse)(txn).OpResponse()
}

func (kv *fencedKV) Txn(ctx context.Context) clientv3.Txn {
	return optxn.New(kv.KV.Txn(ctx), func(op clientv3.Op) (clientv3.OpResponse, error) { return kv.Do(ctx, op) })
}
