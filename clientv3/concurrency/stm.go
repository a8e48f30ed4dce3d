package concurrency

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
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
	// changed since. Its reads are serializable: any member answers, without agreement
	// with the others.
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
// apply again with current values, until the transaction commits or the abort context
// ends.
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
