package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/staleness"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

var errNotRead = errors.New("the Entry has no ModRevision: it must be one that was read")

// Create writes a key that does not exist, and returns the revision. If it exists, the error is [ErrExists]. It is sent once:
// over a plain client, the outcome of a lost answer is unknown. The options are those of a put, such as clientv3.WithLease.
func (s *Store[T]) Create(ctx context.Context, key string, value T, opts ...clientv3.OpOption) (int64, error) {
	op, err := s.put("create", key, value, opts)
	if err != nil {
		return 0, err
	}
	r, err := s.execute(ctx, guarded{op: op, before: new(mvccpb.KeyValue)})
	switch {
	case err != nil:
		return 0, s.failed("create", s.prefix+key, err)
	case !r.written:
		return 0, s.refused("create", s.prefix+key, ErrExists)
	}
	return r.revision, nil
}

// Update replaces the value of a key by what change returns for it, and returns the key as it was written. If another
// client writes the key meanwhile, change is called again with the new value, after a random pause that grows from 10 ms to
// 1 s, until the update is done or ctx ends. If change returns an error, nothing is written, and Update returns it. If the
// encoded value is the same, nothing is written either. If there is no such key, the error is [ErrNotFound].
//
// The key stays attached to its lease, unless the options, which are those of a put, have another one.
func (s *Store[T]) Update(ctx context.Context, key string, change func(T) (T, error), opts ...clientv3.OpOption) (Entry[T], error) {
	return s.update(ctx, key, change, false, opts)
}

// CreateOrUpdate is Update, but if the key does not exist, it calls change with the zero value of T and creates the key, as
// [Store.Create] does.
func (s *Store[T]) CreateOrUpdate(ctx context.Context, key string, change func(T) (T, error), opts ...clientv3.OpOption) (Entry[T], error) {
	return s.update(ctx, key, change, true, opts)
}

func (s *Store[T]) update(ctx context.Context, key string, change func(T) (T, error), create bool, opts []clientv3.OpOption) (Entry[T], error) {
	ctx = staleness.Linearizable(ctx) // a stale read may lack the key, or have an equal value that is no longer there
	for conflicts := 1; ; conflicts++ {
		kv, err := s.read(ctx, key)
		if create && errors.Is(err, ErrNotFound) {
			kv, err = &mvccpb.KeyValue{Key: []byte(s.prefix + key)}, nil
		}
		if err != nil {
			return Entry[T]{}, s.refused("update", s.prefix+key, err)
		}
		if e, done, err := s.replace(ctx, kv, change, opts); err != nil || done {
			return e, err
		}
		if err := pause.For(ctx, retry.Policy{}.Delay(conflicts)); err != nil {
			return Entry[T]{}, s.refused("update", s.prefix+key, err)
		}
	}
}

// replace tries to update a key that was read, and reports whether that is done.
func (s *Store[T]) replace(ctx context.Context, kv *mvccpb.KeyValue, change func(T) (T, error), opts []clientv3.OpOption) (e Entry[T], done bool, err error) {
	e, exists := Entry[T]{Key: strings.TrimPrefix(string(kv.Key), s.prefix)}, kv.ModRevision != 0
	if exists {
		if e, err = s.entry("update", kv); err != nil {
			return e, false, s.refused("update", string(kv.Key), errors.Unwrap(err))
		}
	}
	if e.Value, err = change(e.Value); err != nil {
		return e, false, s.refused("update", string(kv.Key), err)
	}
	op, err := s.put("update", e.Key, e.Value, append([]clientv3.OpOption{clientv3.WithLease(e.Lease)}, opts...))
	if err != nil {
		return e, false, err
	}
	if exists && len(opts) == 0 && bytes.Equal(kv.Value, op.ValueBytes()) {
		return e, true, nil
	}
	r, err := s.execute(ctx, guarded{op: op, before: kv})
	if err != nil {
		return e, false, s.failed("update", string(kv.Key), err)
	}
	e.ModRevision, e.Version, e.Lease = r.revision, e.Version+1, op.LeaseID()
	e.CreateRevision = cmp.Or(e.CreateRevision, r.revision)
	return e, r.written, nil
}

// DeleteUnmodified deletes a key that was read or written, if it has not been written or deleted since. Otherwise the
// error is [ErrModified].
func (s *Store[T]) DeleteUnmodified(ctx context.Context, e Entry[T]) error {
	key := s.prefix + e.Key
	if e.ModRevision == 0 {
		return s.refused("delete", key, errNotRead)
	}
	before := &mvccpb.KeyValue{CreateRevision: e.CreateRevision, ModRevision: e.ModRevision, Version: e.Version}
	r, err := s.execute(ctx, guarded{op: clientv3.OpDelete(key), before: before})
	switch {
	case err != nil:
		return s.failed("delete", key, err)
	case !r.written:
		return s.refused("delete", key, ErrModified)
	}
	return nil
}

// guarded is a put or a delete that is executed only if its key is as it was read. If the key existed, at most one of all copies
// is executed. If it did not, the condition holds again when the key is deleted: there is one copy.
type guarded struct {
	op clientv3.Op
	// before has the revisions of the key as it was read; 0 if it did not exist.
	before *mvccpb.KeyValue
}

// result is the known result of a guarded write. If written is not set, the write will not be executed later.
type result struct {
	written  bool
	revision int64 // of the write
}

// txn returns the write as a transaction of a form that kine supports.
func (g guarded) txn(ctx context.Context, kv clientv3.KV) clientv3.Txn {
	key := string(g.op.KeyBytes())
	txn := kv.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", g.before.ModRevision)).Then(g.op)
	if g.before.ModRevision == 0 {
		return txn
	}
	return txn.Else(clientv3.OpGet(key))
}

// execute sends a write until it is known whether it was executed. After an error retry.OutcomeOf tells whether that is
// still unknown.
func (s *Store[T]) execute(ctx context.Context, g guarded) (result, error) {
	resp, unsure, err := s.send(ctx, g)
	switch {
	case err == nil && resp.Succeeded:
		return result{written: true, revision: resp.Header.GetRevision()}, nil
	case unsure == nil:
		return result{}, err
	case err != nil:
		return result{}, unknown(err, unsure)
	}
	// A copy whose answer was lost may have changed the key.
	kv, at, err := s.firstChange(ctx, g, resp.Header.GetRevision())
	if err != nil {
		return result{}, unknown(err, unsure)
	}
	return result{written: g.wrote(kv), revision: at}, nil
}

// unknown returns the error of a write whose outcome is unknown.
func unknown(err, unsure error) error {
	if errors.Is(err, unsure) {
		err = nil // it is of the same copy
	}
	return &retry.UnknownOutcomeError{Method: pb.KV_Txn_FullMethodName, Err: errors.Join(err, unsure)}
}

// send sends a write until there is an answer, or an error that every repetition would get; one that creates its key once.
// unsure is the error of the last copy that may have been executed, nil if there is none.
func (s *Store[T]) send(ctx context.Context, g guarded) (resp *clientv3.TxnResponse, unsure, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, &retry.NotSentError{Err: err}
	}
	for round := 1; ; round++ {
		resp, err = g.txn(ctx, s.kv).Commit()
		if err != nil && retry.OutcomeOf(err) != retry.OutcomeNotExecuted {
			unsure = err // execute finds out whether it was executed, and which branch
		}
		_, responseLost := errors.AsType[*retry.ResponseLostError](err)
		if !responseLost && retry.Classify(err, retry.Evidence{Sent: true, ContextErr: ctx.Err()}) != retry.Ambiguous {
			return resp, unsure, err
		}
		if g.before.ModRevision == 0 || permanent(err) || pause.For(ctx, retry.Policy{}.Delay(round)) != nil {
			return nil, unsure, err
		}
	}
}

// permanent reports whether every repetition would get the error, which leaves the outcome or the branch unknown: for
// example, the answer is larger than the client accepts.
func permanent(err error) bool {
	if unknown, ok := errors.AsType[*retry.UnknownOutcomeError](err); ok {
		err = unknown.Err
	} else if lost, ok := errors.AsType[*retry.ResponseLostError](err); ok {
		err = lost.Err
	}
	return retry.Classify(err, retry.Evidence{Sent: true}) == retry.Executed
}

// wrote reports whether the first change of the key equals the write. kv is the key after that change, nil if that was a
// delete.
func (g guarded) wrote(kv *mvccpb.KeyValue) bool {
	if g.op.IsDelete() {
		return kv == nil
	}
	return kv != nil && bytes.Equal(kv.Value, g.op.ValueBytes()) && kv.Lease == int64(g.op.LeaseID())
}

// firstChange returns the key after its first change since it was read, nil if that was a delete, and the revision of the
// change. The key existed when it was read; at revision high it has changed. It is a binary search in the history: one read
// if the key was changed once, a few dozen at most. The reads name a revision, so none is stale.
func (s *Store[T]) firstChange(ctx context.Context, g guarded, high int64) (*mvccpb.KeyValue, int64, error) {
	kv, high, err := s.at(ctx, g, high)
	for low := g.before.ModRevision; err == nil && high > low+1 && !g.next(kv); {
		middle := low + (high-low)/2
		then, changed, e := s.at(ctx, g, middle)
		switch {
		case e != nil:
			err = e
		case changed == g.before.ModRevision:
			low = middle
		default:
			kv, high = then, changed
		}
	}
	return kv, high, err
}

// next reports whether a key was written once since it was read.
func (g guarded) next(kv *mvccpb.KeyValue) bool {
	return kv != nil && kv.CreateRevision == g.before.CreateRevision && kv.Version == g.before.Version+1
}

// at reads the key of a write at a revision, and returns it with its ModRevision. If the key does not
// exist, it returns nil and the revision of the read.
func (s *Store[T]) at(ctx context.Context, g guarded, rev int64) (*mvccpb.KeyValue, int64, error) {
	resp, err := s.kv.Get(ctx, string(g.op.KeyBytes()), clientv3.WithRev(rev))
	switch {
	case err != nil:
		return nil, 0, err
	case len(resp.Kvs) > 0:
		return resp.Kvs[0], resp.Kvs[0].ModRevision, nil
	}
	return nil, rev, nil
}

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
