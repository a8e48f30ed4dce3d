package idempotent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/reply"
	"github.com/quorate/quorate/clientv3/internal/semantics"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// lanesAtOnce is how many lanes a write tries without a pause. More than one is needed when a lease has ended.
const lanesAtOnce = 3

var (
	// errLaneLost is the cause of an unknown outcome whose record was deleted.
	errLaneLost = errors.New("idempotent: the lease ended, or another client deleted the lane's key, before the answer to a write was known")
	// errMismatch says that the response to a write does not match the request.
	errMismatch = errors.New("idempotent: the response to a write does not match its request")
)

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
		if lanes < lanesAtOnce {
			continue
		}
		if err := pause.For(ctx, k.pacing.Delay(lanes)); err != nil {
			return clientv3.OpResponse{}, notSent(err)
		}
	}
}

// over returns why the history of the lanes is over, nil if it is not.
func (k *KV) over() error { return k.tracker.Over(k.history) }

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
			if step == stepCreate && errors.Is(err, rpctypes.ErrLeaseNotFound) {
				l.ended, r.verdict = true, elsewhere
			}
		}
		if l.ended && (r.verdict == elsewhere || r.verdict == unknown) {
			a.kv.pool.end(a.session)
		}
		if r.verdict == undecided && err != nil {
			failures++
			if pause.For(ctx, a.kv.pacing.Delay(failures)) != nil {
				r = l.leave()
				cause = ctx.Err()
			}
		}
		if r.verdict != undecided {
			return r, cause
		}
	}
}

// newIDs returns ids that no copy of this process has, even if a running virtual machine is cloned.
func newIDs() (creation, write, removal id) {
	var random [24]byte
	_, _ = rand.Read(random[:])                                                     // it never fails
	next := func(at int) id { return id(binary.BigEndian.Uint64(random[at:]) | 1) } // not 0
	return next(0), next(8), next(16)
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

// response returns the caller's part of the answer that ended the write. The first operation of the answer is the
// lane's.
func (a *attempts) response() (clientv3.OpResponse, error) {
	parts, succeeded := a.responses, true
	if cmps, _, _ := a.op.Txn(); len(cmps) > 0 && len(parts) == 1 {
		txn := parts[0].GetResponseTxn()
		parts, succeeded = txn.GetResponses(), txn.GetSucceeded()
	}
	switch {
	case len(parts) > 0 && a.op.IsTxn():
		return (&clientv3.TxnResponse{Header: a.header, Succeeded: succeeded, Responses: parts[1:]}).OpResponse(), nil
	case len(parts) == 2:
		if resp, err := optxn.Part(parts[1], a.op, a.header); err == nil {
			return resp, nil
		}
	}
	return clientv3.OpResponse{}, &retry.ResponseLostError{Revision: a.header.GetRevision(), Err: errMismatch}
}

// maxReads bounds the ranges that one Txn reads: half of etcd's default limit.
const maxReads = 64

// rebuild makes the response to a write whose own response was lost: it reads the keys at the revision of the write
// and the one before.
func (a *attempts) rebuild(ctx context.Context, rec *record) (resp clientv3.OpResponse, err error) {
	b := &rebuilder{at: rec.at, header: reply.Header(a.header, rec.at)}
	b.wrote(clientv3.OpPut(a.lane.key, ""))
	if a.op.IsTxn() {
		_, ops, otherwise := a.op.Txn()
		if !rec.branch {
			ops = otherwise
		}
		txn := &clientv3.TxnResponse{Header: b.header, Succeeded: rec.branch}
		txn.Responses, err = b.all(ops, nil)
		resp = txn.OpResponse()
	} else {
		var one *pb.ResponseOp
		if one, err = b.one(a.op, nil); err == nil {
			resp, err = optxn.Part(one, a.op, b.header)
		}
	}
	if err == nil {
		err = b.read(ctx, a.kv.plain, a.lane.key)
	}
	if err != nil {
		return clientv3.OpResponse{}, &retry.ResponseLostError{Revision: rec.at, Err: err}
	}
	return resp, nil
}

// rebuilder collects what is to be read for the response to a write.
type rebuilder struct {
	at     int64 // the revision of the write
	header *pb.ResponseHeader
	reads  []clientv3.Op
	fill   []func(*pb.RangeResponse) // with what was read, in the same order
	writes []clientv3.Op             // what the operations so far have changed
}

func (b *rebuilder) wrote(op clientv3.Op) { b.writes = append(b.writes, op) }

func (b *rebuilder) readAt(revision int64, op clientv3.Op, fill func(*pb.RangeResponse)) {
	clientv3.WithRev(revision)(&op)
	b.reads, b.fill = append(b.reads, op), append(b.fill, fill)
}

// all returns the responses to ops, which read fills. followed are the operations after ops.
func (b *rebuilder) all(ops, followed []clientv3.Op) ([]*pb.ResponseOp, error) {
	responses := make([]*pb.ResponseOp, len(ops))
	for i, op := range ops {
		var err error
		later := slices.Concat(ops[i+1:], followed)
		if op.IsGet() {
			responses[i], err = b.get(op, later)
		} else {
			responses[i], err = b.one(op, later)
		}
		if err != nil {
			return nil, err
		}
	}
	return responses, nil
}

// one returns the response to a put, a delete or a nested transaction.
func (b *rebuilder) one(op clientv3.Op, later []clientv3.Op) (*pb.ResponseOp, error) {
	switch {
	case op.IsPut():
		resp := &pb.PutResponse{Header: b.innerHeader()}
		if op.IsPrevKV() {
			b.readAt(b.at-1, clientv3.OpGet(string(op.KeyBytes())), func(r *pb.RangeResponse) {
				if len(r.Kvs) > 0 {
					resp.PrevKv = r.Kvs[0]
				}
			})
		}
		b.wrote(op)
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: resp}}, nil
	case op.IsDelete():
		if b.changed(op, b.writes) {
			return nil, errors.New("idempotent: two operations of the Txn delete the same keys")
		}
		resp := &pb.DeleteRangeResponse{Header: b.innerHeader()}
		b.readAt(b.at-1, b.deleted(op), func(r *pb.RangeResponse) {
			resp.Deleted = r.Count
			if op.IsPrevKV() {
				resp.PrevKvs = r.Kvs
			}
		})
		b.wrote(op)
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: resp}}, nil
	default:
		cmps, then, _ := op.Txn()
		if len(cmps) > 0 {
			return nil, errors.New("idempotent: the branch of a nested Txn is not recorded")
		}
		responses, err := b.all(then, later)
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{
			Header: &pb.ResponseHeader{}, Succeeded: true, Responses: responses,
		}}}, err
	}
}

func (b *rebuilder) innerHeader() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: b.at} }

// deleted returns the get that reads the keys of a delete.
func (b *rebuilder) deleted(op clientv3.Op) clientv3.Op {
	get := clientv3.OpGet(string(op.KeyBytes()))
	get.WithRangeBytes(op.RangeBytes())
	if !op.IsPrevKV() {
		clientv3.WithCountOnly()(&get)
	}
	return get
}

// get returns the response to a get within a Txn. The get saw the writes before it and not those after it, so it
// can be read at one revision if all writes of its range are before it, or all are after it.
func (b *rebuilder) get(op clientv3.Op, later []clientv3.Op) (*pb.ResponseOp, error) {
	revision := op.Rev()
	if revision == 0 {
		revision = b.at
		if !b.changed(op, b.writes) {
			revision--
		} else if b.changed(op, later) {
			return nil, errors.New("idempotent: the Txn reads keys between two writes of them")
		}
	}
	resp := &pb.ResponseOp_ResponseRange{}
	b.readAt(revision, op, func(r *pb.RangeResponse) {
		r.Header = b.innerHeader()
		resp.ResponseRange = r
	})
	return &pb.ResponseOp{Response: resp}, nil
}

// changed reports whether any of ops writes keys of op.
func (b *rebuilder) changed(op clientv3.Op, ops []clientv3.Op) bool {
	keys := semantics.Of(op.KeyBytes(), op.RangeBytes())
	return slices.ContainsFunc(optxn.Writes(ops...), func(w clientv3.Op) bool {
		return keys.Overlaps(semantics.Of(w.KeyBytes(), w.RangeBytes()))
	})
}

// read executes the collected reads. Each Txn also has a linearizable get, which makes all of the Txn
// linearizable: a member that lags does not have the revisions yet.
func (b *rebuilder) read(ctx context.Context, kv clientv3.KV, key string) error {
	for reads := range slices.Chunk(b.reads, maxReads) {
		txn := append(slices.Clone(reads), clientv3.OpGet(key, clientv3.WithCountOnly()))
		resp, err := kv.Do(ctx, clientv3.OpTxn(nil, txn, nil))
		if err != nil {
			return err
		}
		if len(resp.Txn().Responses) != len(txn) {
			return errMismatch
		}
		for i := range reads {
			r := resp.Txn().Responses[i].GetResponseRange()
			if r == nil {
				return errMismatch
			}
			b.fill[0](r)
			b.fill = b.fill[1:]
		}
	}
	return nil
}
