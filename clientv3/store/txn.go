package store

import (
	"context"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
)

// Tx is a transaction in the function of [Txn]. Stores read and write in it by [Store.In].
type Tx struct {
	stm concurrency.STM
	// written has, by key, whether a key that this run has written or deleted exists by that.
	written map[string]bool
}

// Txn runs apply as one transaction over any number of Stores, and returns the revision of its commit. What apply has
// read and writes is at one revision: if another client changes any of it meanwhile, nothing is written, and apply runs
// again with the new values, until the transaction commits or ctx ends. So apply should have no other effects; if it
// returns an error, nothing is written, and Txn returns the error.
//
//	_, err := store.Txn(ctx, client, func(tx *store.Tx) error {
//		from, err := accounts.In(tx).Get("a")
//
// The writes are executed by kv, over which the Stores must be, too. Errors of the requests are those of
// concurrency.NewSTM. After a lost answer the outcome is unknown, unless kv is of package idempotent.
func Txn(ctx context.Context, kv clientv3.KV, apply func(*Tx) error) (revision int64, err error) {
	client := clientv3.NewCtxClient(ctx)
	defer func() { _ = client.Close() }() // it has no connection
	client.KV = kv
	resp, err := concurrency.NewSTM(client, func(stm concurrency.STM) error {
		return apply(&Tx{stm: stm, written: map[string]bool{}})
	}, concurrency.WithAbortContext(ctx))
	if err != nil {
		return 0, err
	}
	return resp.Header.GetRevision(), nil
}

// TxStore is a [Store] in a transaction. Use it on the goroutine of the function of [Txn], until that returns.
type TxStore[T any] struct {
	store *Store[T]
	tx    *Tx
}

// In returns the Store in a transaction.
func (s *Store[T]) In(tx *Tx) TxStore[T] { return TxStore[T]{s, tx} }

// Get returns the value of a key, as this transaction has written or read it; or [ErrNotFound], or [ErrDecode].
func (t TxStore[T]) Get(key string) (value T, err error) {
	whole := t.store.prefix + key
	exists, written := t.tx.written[whole]
	if !written {
		exists = t.tx.stm.Rev(whole) != 0
	}
	if !exists {
		return value, t.store.failed("get", whole, ErrNotFound)
	}
	return t.store.decode("get", whole, []byte(t.tx.stm.Get(whole)))
}

// Put writes a key at the end of the transaction. The options are those of a put. The error is one of the codec.
func (t TxStore[T]) Put(key string, value T, opts ...clientv3.OpOption) error {
	op, err := t.store.put("put", key, value, opts)
	if err != nil {
		return err
	}
	t.tx.stm.Put(t.store.prefix+key, string(op.ValueBytes()), opts...)
	t.tx.written[t.store.prefix+key] = true
	return nil
}

// Delete deletes a key at the end of the transaction.
func (t TxStore[T]) Delete(key string) {
	t.tx.stm.Del(t.store.prefix + key)
	t.tx.written[t.store.prefix+key] = false
}
