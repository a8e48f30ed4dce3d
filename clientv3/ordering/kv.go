package ordering

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/internal/pause"
)

// maxPause is the longest pause between two attempts of one read. A lagging member
// needs longer than that to catch up, and ten reads per second do not slow it down.
const maxPause = 100 * time.Millisecond

type kvOrdering struct {
	optxn.KV
	store     clientv3.KV
	violation OrderViolationFunc
	tracker   *lineage.Tracker
	history   *lineage.History // of the first response
}

// NewKV returns a KV whose responses never have a lower revision than a response
// returned before the request began. Responses to writes count like those to reads.
// All requests except Compact go through kv.Do and kv.GetStream.
//
// When kv answers a read, or a read-only transaction, with a lower revision,
// orderViolationFunc decides. While it returns nil the read is sent again: first at
// once, then after pauses that grow to 100 ms, until ctx ends. An answered write was
// executed, and its response is returned unchanged.
//
// A response of another cluster, and a write or a linearizable read with a lower
// revision, show that the store has another history, for example because it was
// restored from a backup. From then on all reads fail with an error that wraps a
// *clientv3.ClusterChangedError and [ErrNoGreaterRev], because revisions of two
// histories cannot be compared. Writes still work. A new KV starts from the present
// state.
//
// GetStream first makes a read to choose its revision, which costs a round trip, so
// its chunks are never older either. A reader that stops early must cancel its
// context; closing the client is not enough.
func NewKV(kv clientv3.KV, orderViolationFunc OrderViolationFunc) clientv3.KV {
	tracker := lineage.New(func(c *lineage.Change) error {
		return fmt.Errorf("%w: %w", ErrNoGreaterRev, (*clientv3.ClusterChangedError)(c))
	})
	k := &kvOrdering{store: kv, violation: orderViolationFunc, tracker: tracker, history: tracker.History()}
	k.KV = optxn.Over(kv, k.do)
	return k
}

func (kv *kvOrdering) Compact(ctx context.Context, rev int64, opts ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	resp, err := kv.store.Compact(ctx, rev, opts...)
	if err == nil {
		kv.history.Reach(resp.Header.GetRevision())
	}
	return resp, err
}

func (kv *kvOrdering) do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	prevRev := kv.history.Revision()
	for attempt := 1; ; attempt++ {
		resp, err := kv.store.Do(ctx, op)
		if err != nil {
			return clientv3.OpResponse{}, err
		}
		header, least := optxn.Response(resp).GetHeader(), int64(0)
		if isLinearizable(op) {
			least = prevRev
		}
		kv.tracker.Note(kv.history, header, least)
		rev, over := header.GetRevision(), kv.tracker.Over(kv.history) // over is set once the history differs from that of the first response
		switch {
		case len(optxn.Writes(op)) > 0:
			kv.history.Reach(rev)
			return resp, nil // it was executed
		case over != nil:
			return clientv3.OpResponse{}, over
		case rev >= prevRev:
			kv.history.Reach(rev)
			return resp, nil
		}
		if err := kv.violation(op, resp, prevRev); err != nil {
			return clientv3.OpResponse{}, err
		}
		if err := pause.For(ctx, pauseAfter(attempt)); err != nil {
			return clientv3.OpResponse{}, err
		}
	}
}

// isLinearizable reports whether the response to an operation is no older than the
// request. That is not guaranteed for an empty transaction, or one with
// serializable reads only.
func isLinearizable(op clientv3.Op) bool {
	if !op.IsTxn() {
		return !op.IsGet() || !op.IsSerializable()
	}
	_, thenOps, elseOps := op.Txn()
	return slices.ContainsFunc(slices.Concat(thenOps, elseOps), isLinearizable)
}

// pauseAfter returns how long to wait after a number of failed attempts. There is no wait
// after the first: the next endpoint in the rotation is probably up to date.
func pauseAfter(attempts int) time.Duration {
	return min(time.Duration((attempts-1)*(attempts-1))*time.Millisecond, maxPause)
}
