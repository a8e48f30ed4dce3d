package idempotent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// otherLanes is how many lanes a write tries without a pause. More than one is needed when a lease has ended.
const otherLanes = 3

// write executes an operation once.
func (k *KV) write(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	for lanes := 1; ; lanes++ {
		if err := k.over(); err != nil {
			return clientv3.OpResponse{}, notSent(err)
		}
		s, l, err := k.pool.acquire(ctx)
		if err != nil {
			return clientv3.OpResponse{}, notSent(err)
		}
		a := &attempts{kv: k, session: s, lane: l, op: op}
		if r, err := a.run(ctx); r.verdict != elsewhere {
			k.counters.ended(r)
			return a.conclude(ctx, r, err)
		}
		if lanes < otherLanes {
			continue
		}
		if err := pause.For(ctx, k.pacing.Delay(lanes)); err != nil {
			return clientv3.OpResponse{}, notSent(err)
		}
	}
}

// attempts are the requests of one write in one lane.
type attempts struct {
	kv      *KV
	session *session
	lane    *lane
	op      clientv3.Op
	// header and responses are those of the answer that ended them.
	header    *pb.ResponseHeader
	responses []*pb.ResponseOp
}

// run sends requests until there is a verdict. The error is the last one, or the one for which the write is
// withdrawn.
func (a *attempts) run(ctx context.Context) (result, error) {
	l := a.lane
	defer a.kv.pool.release(a.session, l) // also if an interceptor panics
	l.begin(newIDs())
	var cause error
	for failures := 0; ; {
		step := l.step
		var unsure atomic.Bool
		resp, err := a.send(ctx, &unsure)
		if over := a.kv.over(); over != nil {
			return result{verdict: restored}, over
		}
		var r result
		if err == nil {
			r, err = a.answered(resp, unsure.Load())
		} else {
			class := retry.Classify(err, retry.Evidence{Sent: true, ContextErr: ctx.Err(), Method: pb.KV_Txn_FullMethodName})
			if step == stepWrite || cause == nil {
				cause = err
			}
			r = l.failed(class, unsure.Load())
			failures++
			if step == stepCreate && errors.Is(err, rpctypes.ErrLeaseNotFound) {
				l.ended, r.verdict = true, elsewhere
			}
		}
		if l.ended && (r.verdict == elsewhere || r.verdict == unknown) {
			a.kv.pool.end(a.session)
		}
		if r.verdict == undecided && err != nil && pause.For(ctx, a.kv.pacing.Delay(failures)) != nil {
			r = l.leave()
			cause = ctx.Err()
		}
		if r.verdict != undecided {
			return r, cause
		}
	}
}

// send sends a request for the current step.
func (a *attempts) send(ctx context.Context, unsure *atomic.Bool) (*clientv3.TxnResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // the channel cannot always prove that nothing was sent
	}
	l, least := a.lane, a.kv.history.Revision()
	guard := clientv3.Compare(clientv3.ModRevision(l.key), "=", l.guard)
	op := clientv3.OpTxn([]clientv3.Cmp{guard}, a.operations(), []clientv3.Op{clientv3.OpGet(l.key)})
	resp, err := a.kv.lanes.Do(context.WithValue(ctx, unsureKey{}, unsure), op)
	if err != nil {
		return nil, err
	}
	a.kv.tracker.Note(a.kv.history, resp.Txn().Header, least)
	return resp.Txn(), nil
}

// operations returns what the current step does if the guard holds.
func (a *attempts) operations() []clientv3.Op {
	put := func(branch bool) clientv3.Op {
		return clientv3.OpPut(a.lane.key, newRecord(a.lane.id(), branch), clientv3.WithLease(a.session.Lease()))
	}
	switch {
	case a.lane.step == stepDrop:
		return []clientv3.Op{clientv3.OpDelete(a.lane.key)}
	case a.lane.step != stepWrite:
		return []clientv3.Op{put(false)}
	case !a.op.IsTxn():
		return []clientv3.Op{put(true), a.op}
	}
	cmps, then, otherwise := a.op.Txn()
	then = append([]clientv3.Op{put(true)}, then...)
	if len(cmps) == 0 {
		return then
	}
	return []clientv3.Op{clientv3.OpTxn(cmps, then, append([]clientv3.Op{put(false)}, otherwise...))}
}

// answered handles the answer to a request. unsure says that another copy of it may have been executed. An error
// says that the answer does not match the request.
func (a *attempts) answered(resp *clientv3.TxnResponse, unsure bool) (result, error) {
	a.header, a.responses = resp.Header, resp.Responses
	if resp.Succeeded {
		return a.lane.held(resp.Header.GetRevision()), nil
	}
	if len(resp.Responses) != 1 || resp.Responses[0].GetResponseRange() == nil {
		return a.lane.failed(retry.Ambiguous, true), errMismatch
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return a.lane.failedGuard(nil, unsure), nil
	}
	rec := &record{created: kvs[0].CreateRevision, at: kvs[0].ModRevision}
	rec.id, rec.branch = parseRecord(kvs[0].Value)
	return a.lane.failedGuard(rec, unsure), nil
}

// conclude returns the response or the error for a verdict.
func (a *attempts) conclude(ctx context.Context, r result, err error) (clientv3.OpResponse, error) {
	switch r.verdict {
	case executed:
		if r.record == nil {
			return a.response()
		}
		return a.rebuild(ctx, r.record)
	case notExecuted:
		return clientv3.OpResponse{}, notSent(err)
	case restored:
		id := a.header.GetClusterId() // 0 where headers show nothing, and only the lane does
		a.kv.history.Reach(a.lane.guard)
		a.kv.tracker.End(a.kv.history, &lineage.Change{OldClusterID: id, NewClusterID: id, NewRevision: r.revision})
		return clientv3.OpResponse{}, a.kv.over()
	default:
		if ctx.Err() != nil {
			return clientv3.OpResponse{}, ctx.Err()
		}
		return clientv3.OpResponse{}, &retry.UnknownOutcomeError{Method: pb.KV_Txn_FullMethodName, Err: cmp.Or(err, errLaneLost)}
	}
}

// over returns why the history of the lanes is over, nil if it is not.
func (k *KV) over() error { return k.tracker.Over(k.history) }

// errLaneLost is the cause of an unknown outcome whose record was deleted.
var errLaneLost = errors.New("idempotent: the lease ended, or another client deleted the lane's key, before the answer to a write was known")

// newIDs returns ids that no copy of this process has, even if a running virtual machine is cloned.
func newIDs() (creation, write, removal id) {
	var random [24]byte
	_, _ = rand.Read(random[:])                                                     // it never fails
	next := func(at int) id { return id(binary.BigEndian.Uint64(random[at:]) | 1) } // not 0
	return next(0), next(8), next(16)
}
