package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/settle"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// guarded is a put or a delete that is executed only if its key is as it was read. Of all its copies at most one is executed.
type guarded struct {
	op clientv3.Op
	// before has the revisions of the key as it was read; 0 if it did not exist.
	before *mvccpb.KeyValue
}

// result is the known result of a guarded write. If written is not set, the write will not be executed later.
type result struct {
	written  bool
	revision int64 // of the write
	// unsure is the error of a copy that may have created the key, although others have deleted and created it since.
	unsure error
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
	switch {
	case err != nil:
		return result{}, unknown(err, unsure)
	case g.wrote(kv):
		return result{written: true, revision: at}, nil
	case g.before.ModRevision == 0:
		return result{unsure: unsure}, nil
	}
	return result{}, nil
}

// unknown returns the error of a write whose outcome is unknown.
func unknown(err, unsure error) error {
	if errors.Is(err, unsure) {
		err = nil // it is of the same copy
	}
	return &retry.UnknownOutcomeError{Method: pb.KV_Txn_FullMethodName, Err: errors.Join(err, unsure)}
}

// send sends a write until there is an answer, or an error that every repetition would get. unsure is the error of
// the last copy that may have been executed, nil if there is none.
func (s *Store[T]) send(ctx context.Context, g guarded) (resp *clientv3.TxnResponse, unsure, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, &retry.NotSentError{Err: err}
	}
	for round := 1; ; round++ {
		var lost error
		resp, lost, err = settle.Commit(ctx, func() clientv3.Txn { return g.txn(ctx, s.kv) })
		unsure = cmp.Or(lost, unsure)
		if _, responseLost := errors.AsType[*retry.ResponseLostError](err); responseLost {
			unsure = err // execute finds out which branch was executed
		} else if retry.Classify(err, retry.Evidence{Sent: true, ContextErr: ctx.Err()}) != retry.Ambiguous {
			return resp, unsure, err
		}
		if permanent(err) {
			return nil, unsure, err
		}
		if pause.For(ctx, pauses.Delay(round)) != nil {
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
// change. At revision high the key has changed. It is a binary search in the history: one read if the key was changed once,
// a few dozen at most. The reads name a revision, so none is stale.
func (s *Store[T]) firstChange(ctx context.Context, g guarded, high int64) (*mvccpb.KeyValue, int64, error) {
	kv, high, err := s.at(ctx, g, high)
	if kv != nil && g.before.ModRevision == 0 {
		return s.at(ctx, g, kv.CreateRevision)
	}
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
