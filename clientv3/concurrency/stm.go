package concurrency

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
)

// STM is what the function of [NewSTM] reads and writes keys with. It is for the
// goroutine that the function was called in, and until the function returns.
//
// A method that fails ends the function by a panic, which NewSTM turns into the error
// that it returns. Deferred calls run as usual; a function that recovers the panic ends
// with the same error.
type STM interface {
	// Get returns the value of a key: the one that this transaction has put, or the one
	// that it has read, now or before. It is empty for a key that does not exist, which
	// Rev tells from an empty value. Of several keys Get returns the value of the first,
	// and reads them all in one request, at one revision. Without a key it returns an
	// empty value.
	Get(key ...string) string

	// Put writes a key at the end of the transaction. Options are those of a put, such as
	// [clientv3.WithLease].
	Put(key, val string, opts ...clientv3.OpOption)

	// Rev returns the revision that last wrote the key, as the transaction has read it,
	// and reads the key if it has not. It is 0 for a key that does not exist. What the
	// transaction itself puts has no revision yet.
	Rev(key string) int64

	// Del deletes a key at the end of the transaction.
	Del(key string)

	sealed()
}

// Isolation says what a transaction must not notice of others, see [WithIsolation].
type Isolation int

const (
	// SerializableSnapshot is the default: Serializable, and no key that is written was
	// written by others since the first read.
	SerializableSnapshot Isolation = iota

	// Serializable makes all reads show one revision, also in a run of the function that
	// does not commit, and commits if none of what was read has changed since.
	Serializable

	// RepeatableReads makes every read of a key show the same, each key perhaps at another
	// revision, and commits if none of what was read has changed since. The reads ask
	// whichever member is next, without agreement with the others.
	RepeatableReads

	// ReadCommitted is RepeatableReads that commits whatever has changed: the reads may be
	// stale, and updates that depend on them are lost.
	ReadCommitted
)

// guards are what an isolation level consists of.
type guards struct {
	snapshot bool // reads show one revision
	reads    bool // what was read must not have changed
	writes   bool // what is written must not have changed since that revision
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

// WithPrefetch reads keys in one request before the function begins. They count as read,
// whether or not the function reads them.
func WithPrefetch(keys ...string) STMOption {
	return func(so *stmOptions) { so.prefetch = append(so.prefetch, keys...) }
}

// NewSTM runs apply as a transaction and returns the response to its commit. When others
// have changed what the isolation level protects, nothing was written and apply is run
// again, with what it had read as it is now, until the transaction commits or the abort
// context ends.
//
// apply runs in the caller's goroutine, perhaps several times, and should have no effects
// other than those of its STM. An error that it returns ends the transaction, without any
// writes, and is returned as it is; a panic goes on to the caller.
//
// Other errors are those of the requests: the abort context's, or the server's, such as
// rpctypes.ErrTooManyOps for a transaction of more keys than it allows (--max-txn-ops, 128
// by default). A *retry.UnknownOutcomeError says that the transaction may have been
// committed.
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
