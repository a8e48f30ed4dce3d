package optxn

import (
	"context"

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
