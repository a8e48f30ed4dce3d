package namespace

import (
	"context"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
)

type kvPrefix struct {
	optxn.KV // Compact works on the whole store
	store    clientv3.KV
	scope    scope
}

// NewKV returns a KV whose keys are those of kv that begin with prefix. It reads
// and writes through kv.Do, kv.Txn and kv.GetStream, and answers like a store that has
// nothing but these keys; an empty key gives rpctypes.ErrEmptyKey, also within a
// transaction. Two things differ from such a store: revisions are those of kv, and
// Compact discards the history of all of kv.
//
// A GetStream takes a goroutine of its own. A reader who stops early must end its
// context; to close the client is not enough.
func NewKV(kv clientv3.KV, prefix string) clientv3.KV {
	k := &kvPrefix{store: kv, scope: scope(prefix)}
	k.KV = optxn.Over(kv, k.do)
	return k
}

func (kv *kvPrefix) Txn(ctx context.Context) clientv3.Txn {
	return optxn.New(func(op clientv3.Op) (clientv3.OpResponse, error) {
		op, err := kv.scope.opTxn(op)
		if err != nil {
			return clientv3.OpResponse{}, err
		}
		cmps, thenOps, elseOps := op.Txn()
		resp, err := kv.store.Txn(ctx).If(cmps...).Then(thenOps...).Else(elseOps...).Commit()
		if err != nil {
			return clientv3.OpResponse{}, err
		}
		return kv.scope.opResponse(resp.OpResponse()), nil
	})
}

func (kv *kvPrefix) do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	op, err := kv.scope.op(op)
	if err != nil {
		return clientv3.OpResponse{}, err
	}
	resp, err := kv.store.Do(ctx, op)
	if err != nil {
		return clientv3.OpResponse{}, err
	}
	return kv.scope.opResponse(resp), nil
}
