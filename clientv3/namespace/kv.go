package namespace

import (
	"context"

	"github.com/quorate/quorate/clientv3"
)

type kvPrefix struct {
	clientv3.KV // Compact works on the whole store
	scope       scope
}

// NewKV returns a KV whose keys are those of kv that begin with prefix. It reads
// and writes through kv.Do and kv.GetStream, and answers like a store that has
// nothing but these keys; an empty key gives rpctypes.ErrEmptyKey, also within a
// transaction. Two things differ from such a store: revisions are those of kv, and
// Compact discards the history of all of kv.
//
// A GetStream takes a goroutine of its own. A reader who stops early must end its
// context; to close the client is not enough.
func NewKV(kv clientv3.KV, prefix string) clientv3.KV {
	return &kvPrefix{KV: kv, scope: scope(prefix)}
}

func (kv *kvPrefix) Put(ctx context.Context, key, val string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	resp, err := kv.Do(ctx, clientv3.OpPut(key, val, opts...))
	return resp.Put(), err
}

func (kv *kvPrefix) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := kv.Do(ctx, clientv3.OpGet(key, opts...))
	return resp.Get(), err
}

func (kv *kvPrefix) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	resp, err := kv.Do(ctx, clientv3.OpDelete(key, opts...))
	return resp.Del(), err
}

func (kv *kvPrefix) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	op, err := kv.scope.op(op)
	if err != nil {
		return clientv3.OpResponse{}, err
	}
	resp, err := kv.KV.Do(ctx, op)
	if err != nil {
		return clientv3.OpResponse{}, err
	}
	return kv.scope.opResponse(resp), nil
}

func (kv *kvPrefix) Txn(ctx context.Context) clientv3.Txn {
	return &txn{Txn: kv.KV.Txn(ctx), scope: kv.scope}
}
