package concurrency

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// STM reads and writes keys in the function of [NewSTM]. Use it only on the
// function's goroutine and until the function returns.
//
// A method that fails panics, which ends the function; NewSTM recovers the panic and
// returns the error. Deferred calls run as usual; if the function recovers the panic,
// NewSTM still returns the error.
type STM interface {
	// Get returns the value of a key: the one put by this transaction, or the one read
	// now or before. It is empty for a key that does not exist; use Rev to distinguish
	// that from an empty value. With several keys Get reads them in one request, at one
	// revision, and returns the value of the first. Without a key it returns an empty
	// value.
	Get(key ...string) string

	// Put writes a key at the end of the transaction. opts are options of a put, such as
	// [clientv3.WithLease].
	Put(key, val string, opts ...clientv3.OpOption)

	// Rev returns the revision that last wrote the key, as the transaction has read it;
	// it reads the key if necessary. It is 0 for a key that does not exist. Puts of the
	// transaction itself have no revision yet.
	Rev(key string) int64

	// Del deletes a key at the end of the transaction.
	Del(key string)

	sealed()
}

// Isolation is the isolation level of a transaction, see [WithIsolation].
type Isolation int

const (
	// SerializableSnapshot is the default: Serializable, and others have not written
	// the transaction's written keys since its first read.
	SerializableSnapshot Isolation = iota

	// Serializable reads all keys at one revision, even in a run that does not commit,
	// and commits only if no key that was read has changed since.
	Serializable

	// RepeatableReads returns the same value for every read of a key, but may read
	// different keys at different revisions. It commits only if no key that was read has
	// changed since. Its reads are serializable, until two commits have failed: any member
	// answers, without agreement with the others.
	RepeatableReads

	// ReadCommitted is RepeatableReads without the check at commit: reads may be stale,
	// and updates that depend on them can be lost.
	ReadCommitted
)

// guards are the parts of an isolation level.
type guards struct {
	snapshot bool // all reads are at one revision
	reads    bool // keys that were read must not have changed
	writes   bool // written keys must not have changed since that revision
}

var isolations = map[Isolation]guards{
	SerializableSnapshot: {snapshot: true, reads: true, writes: true},
	Serializable:         {snapshot: true, reads: true},
	RepeatableReads:      {reads: true},
	ReadCommitted:        {},
}

type stmOptions struct {
	isolation Isolation
	ctx       context.Context
	prefetch  []string
}

// STMOption configures [NewSTM].
type STMOption func(*stmOptions)

// WithIsolation sets the isolation level. The default is [SerializableSnapshot].
func WithIsolation(lvl Isolation) STMOption {
	return func(so *stmOptions) { so.isolation = lvl }
}

// WithAbortContext sets the context of all requests of the transaction; when it ends,
// the transaction fails with its error. The default is the context of the client.
func WithAbortContext(ctx context.Context) STMOption {
	return func(so *stmOptions) { so.ctx = ctx }
}

// WithPrefetch reads keys in one request before the function begins. They count as read
// even if the function does not read them.
func WithPrefetch(keys ...string) STMOption {
	return func(so *stmOptions) { so.prefetch = append(so.prefetch, keys...) }
}

// NewSTM runs apply as a transaction and returns the response to its commit. If others
// have changed keys that the isolation level protects, NewSTM writes nothing and runs
// apply again with current values, after a random pause that grows from 10 ms to 1 s,
// until the transaction commits or the abort context ends.
//
// apply runs on the caller's goroutine, possibly several times, and should have no
// effects other than through its STM. An error from apply ends the transaction without
// writes and is returned unchanged; a panic propagates to the caller.
//
// Other errors are those of the requests: the abort context's, or the server's, such as
// rpctypes.ErrTooManyOps for a transaction with more operations than the server allows
// (--max-txn-ops, 128 by default). After a *retry.UnknownOutcomeError the transaction may
// have committed.
func NewSTM(c *clientv3.Client, apply func(STM) error, so ...STMOption) (*clientv3.TxnResponse, error) {
	opts := stmOptions{ctx: c.Ctx()}
	for _, opt := range so {
		opt(&opts)
	}
	guards, ok := isolations[opts.isolation]
	if !ok {
		return nil, fmt.Errorf("concurrency: unknown isolation level %d: use one of the constants, SerializableSnapshot (%d) to ReadCommitted (%d)",
			opts.isolation, SerializableSnapshot, ReadCommitted)
	}
	t := &transaction{kv: c, ctx: opts.ctx, guards: guards}
	return t.run(func(s STM) error {
		s.Get(opts.prefetch...)
		return apply(s)
	})
}

// NewSTMRepeatable runs apply with [RepeatableReads].
//
// Deprecated: use [NewSTM] with [WithAbortContext] and [WithIsolation].
func NewSTMRepeatable(ctx context.Context, c *clientv3.Client, apply func(STM) error) (*clientv3.TxnResponse, error) {
	return NewSTM(c, apply, WithAbortContext(ctx), WithIsolation(RepeatableReads))
}

// NewSTMSerializable runs apply with [Serializable].
//
// Deprecated: use [NewSTM] with [WithAbortContext] and [WithIsolation].
func NewSTMSerializable(ctx context.Context, c *clientv3.Client, apply func(STM) error) (*clientv3.TxnResponse, error) {
	return NewSTM(c, apply, WithAbortContext(ctx), WithIsolation(Serializable))
}

// NewSTMReadCommitted runs apply with [ReadCommitted].
//
// Deprecated: use [NewSTM] with [WithAbortContext] and [WithIsolation].
func NewSTMReadCommitted(ctx context.Context, c *clientv3.Client, apply func(STM) error) (*clientv3.TxnResponse, error) {
	return NewSTM(c, apply, WithAbortContext(ctx), WithIsolation(ReadCommitted))
}

// errConflict ends a run of the function that must be repeated.
var errConflict = errors.New("concurrency: what the transaction has read was changed")

// abortError is the value of the panic that ends the function.
type abortError struct{ err error }

// transaction is one call of NewSTM. It is the STM of every run of the function.
type transaction struct {
	kv     clientv3.KV
	ctx    context.Context
	guards guards

	conflicts int // so far

	// base is the revision of all reads of a snapshot, 0 before the first.
	base int64
	// known holds the keys read in the previous run, as the conflicting commit
	// returned them: nil for a key that does not exist. In a snapshot it is their
	// state at base.
	known map[string]*mvccpb.KeyValue

	// The rest is of one run.
	reads   map[string]*mvccpb.KeyValue
	writes  map[string]write
	aborted *abortError
}

type write struct {
	value string
	op    clientv3.Op
}

func (t *transaction) sealed() {}

// run repeats the function until it commits or fails.
func (t *transaction) run(apply func(STM) error) (*clientv3.TxnResponse, error) {
	for {
		t.reads = make(map[string]*mvccpb.KeyValue)
		t.writes = make(map[string]write)
		t.aborted = nil
		err := t.call(apply)
		if err == nil {
			var resp *clientv3.TxnResponse
			if resp, err = t.commit(); err == nil {
				return resp, nil
			}
		}
		if !errors.Is(err, errConflict) {
			return nil, err
		}
		if t.conflicts++; t.conflicts > 1 {
			t.base, t.known = 0, nil // they would be old after longer pauses
		}
		if err := pause.For(t.ctx, retry.Policy{}.Delay(t.conflicts)); err != nil {
			return nil, err
		}
	}
}

// call runs the function once. It handles only the panics of its own STM; others reach
// the caller with their original stack.
func (t *transaction) call(apply func(STM) error) (err error) {
	defer func() {
		if t.aborted == nil {
			return
		}
		if r := recover(); r != nil && r != any(t.aborted) {
			panic(r)
		}
		err = t.aborted.err
	}()
	return apply(t)
}

func (t *transaction) fail(err error) {
	t.aborted = &abortError{err: err}
	panic(t.aborted)
}

func (t *transaction) Get(keys ...string) string {
	if len(keys) == 0 {
		return ""
	}
	if w, ok := t.writes[keys[0]]; ok && len(keys) == 1 {
		return w.value
	}
	t.read(keys)
	if w, ok := t.writes[keys[0]]; ok {
		return w.value
	}
	return string(t.reads[keys[0]].GetValue())
}

func (t *transaction) Put(key, val string, opts ...clientv3.OpOption) {
	t.writes[key] = write{value: val, op: clientv3.OpPut(key, val, opts...)}
}

func (t *transaction) Rev(key string) int64 {
	t.read([]string{key})
	return t.reads[key].GetModRevision()
}

func (t *transaction) Del(key string) {
	t.writes[key] = write{op: clientv3.OpDelete(key)}
}

// read fetches those of the keys that have not been read yet.
func (t *transaction) read(keys []string) {
	var missing []string
	for _, key := range keys {
		if _, ok := t.reads[key]; ok || slices.Contains(missing, key) {
			continue
		}
		if kv, ok := t.known[key]; ok {
			t.reads[key] = kv
			continue
		}
		missing = append(missing, key)
	}
	if len(missing) == 0 {
		return
	}
	resp, err := t.fetch(missing)
	if errors.Is(err, rpctypes.ErrCompacted) && t.base != 0 {
		t.base, t.known = 0, nil // the snapshot was compacted, the next run takes a new one
		err = errConflict
	}
	if err != nil {
		t.fail(err)
	}
	if t.guards.snapshot && t.base == 0 {
		t.base = resp.Header.Revision
	}
	for i, key := range missing {
		t.reads[key] = optxn.Key(resp, i)
	}
}

// fetch reads keys from the cluster, at the revision of the snapshot if there is one. After two conflicts no stale read may
// cause another.
func (t *transaction) fetch(keys []string) (*clientv3.TxnResponse, error) {
	if t.base == 0 && (t.guards.snapshot || t.conflicts > 1) {
		return t.get(keys)
	}
	at := clientv3.WithRev(t.base)
	resp, err := t.get(keys, at, clientv3.WithSerializable())
	if errors.Is(err, rpctypes.ErrFutureRev) { // from a member that lags behind
		return t.get(keys, at)
	}
	return resp, err
}

func (t *transaction) get(keys []string, opts ...clientv3.OpOption) (*clientv3.TxnResponse, error) {
	return t.kv.Txn(t.ctx).Then(gets(keys, opts...)...).Commit()
}

func gets(keys []string, opts ...clientv3.OpOption) []clientv3.Op {
	ops := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		ops[i] = clientv3.OpGet(key, opts...)
	}
	return ops
}

// commit writes the function's puts and deletes. The error is errConflict if a key that
// it depends on has changed; the response then holds the current values.
func (t *transaction) commit() (*clientv3.TxnResponse, error) {
	keys, conditions := slices.Collect(maps.Keys(t.reads)), t.conditions()
	writes := make([]clientv3.Op, 0, len(t.writes))
	for _, w := range t.writes {
		writes = append(writes, w.op)
	}
	txn := t.kv.Txn(t.ctx).Then(writes...)
	if len(conditions) > 0 {
		txn = t.kv.Txn(t.ctx).If(conditions...).Then(writes...).Else(gets(keys)...)
	}
	resp, err := txn.Commit()
	if err != nil && len(conditions) > 0 && retry.OutcomeOf(err) == retry.OutcomeExecuted {
		err = &retry.UnknownOutcomeError{Method: pb.KV_Txn_FullMethodName, Err: err} // it may have found a conflict
	}
	if err != nil {
		return nil, err
	}
	if resp.Succeeded {
		return resp, nil
	}
	t.known = make(map[string]*mvccpb.KeyValue, len(keys))
	for i, key := range keys {
		t.known[key] = optxn.Key(resp, i)
	}
	if t.guards.snapshot {
		t.base = resp.Header.Revision
	}
	return nil, errConflict
}

// conditions returns the comparisons that guard the commit.
func (t *transaction) conditions() []clientv3.Cmp {
	var cmps []clientv3.Cmp
	if t.guards.reads {
		for key, kv := range t.reads {
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(key), "=", kv.GetModRevision()))
		}
	}
	if t.guards.writes && t.base != 0 {
		for key := range t.writes {
			if _, read := t.reads[key]; !read {
				cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(key), "<", t.base+1))
			}
		}
	}
	return cmps
}
