package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/settle"
	"github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/clientv3/store"
	"github.com/quorate/quorate/internal/pause"
)

// Handler handles a job. It must return soon after the end of its context: until it has returned,
// this process claims no job in its place, and after [Config.Margin] another worker may handle the job.
// [context.Cause] is a *leaderelection.TermEndedError if the claim was lost.
type Handler func(ctx context.Context, job *Job) error

var (
	errNotReturned = errors.New("the handler has not returned: it has panicked, or called runtime.Goexit")
	errWorkerLost  = errors.New("the worker was lost")
)

// Work handles jobs, at most places at a time, until ctx ends. Each call has a goroutine of its own.
//
// When ctx ends, Work waits for the handlers, whose contexts end with it. The jobs of those that return an error return to the
// queue at once, and the attempt does not count, unless the lease is lost meanwhile or etcd refuses that for 10 s. Then it
// revokes its lease. If the lease is lost, it waits for the handlers, too, and goes on with a new one. A panic of a handler ends the process, as a panic of any goroutine does; it counts as a failed attempt.
//
// The error is that of ctx, or says what is wrong with the configuration; or it is that of the
// server if it would be the same again, as without permission for the keys of workers. Other
// errors are logged, also those of claims.
func (q *Queue) Work(ctx context.Context, places int, handle Handler) error {
	if places < 1 || handle == nil {
		return fmt.Errorf("jobs: Work with %d places: it needs at least one, and a handler", places)
	}
	lg := q.client.GetLogger().With(zap.String("queue", q.cfg.Name))
	var delay pause.Backoff
	for {
		began := time.Now()
		again := false
		err := leaderelection.Run(ctx, q.client, leaderelection.Config{
			Name: q.keys.live + workers, Value: fmt.Sprintf("%d %s", places, q.cfg.Worker), Holders: math.MaxInt,
			TTL: q.cfg.TTL, Margin: q.cfg.Margin,
		}, func(ctx context.Context, term *leaderelection.Term) error {
			w := &worker{q: q, lg: lg, ctx: ctx, term: term, handle: handle, free: make(chan struct{}, places)}
			w.mirror = newMirror(int64(term.Lease()), q.cfg, w.returnLate)
			err := w.serve()
			again = term.Err() == nil && transient(err)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !again:
			return err
		}
		lg.Warn("the changes of the queue cannot be followed; begins again with another lease", zap.Error(err))
		delay.Wait(ctx, time.Since(began))
	}
}

// worker is a call of Work while it has a lease.
type worker struct {
	q      *Queue
	term   *leaderelection.Term
	handle Handler
	lg     *zap.Logger
	mirror *mirror
	free   chan struct{} // holds a value for each place that is taken

	ctx        context.Context // ends with the term, and when the queue cannot be followed
	lasting    context.Context // ends when the handlers have returned
	running    sync.WaitGroup  // the handlers
	background sync.WaitGroup  // the rest
	failing    atomic.Bool     // the last claim has failed
}

// serve claims and handles jobs until the term ends, or the changes of the queue cannot be followed.
func (w *worker) serve() error {
	var end context.CancelFunc
	var stop context.CancelCauseFunc
	w.lasting, end = context.WithCancel(context.WithoutCancel(w.ctx))
	w.ctx, stop = context.WithCancelCause(w.ctx)
	defer func() {
		w.running.Wait()
		end()
		w.background.Wait()
	}()
	synced := make(chan struct{})
	w.background.Go(func() { stop(w.follow(sync.OnceFunc(func() { close(synced) }))) })
	select { // until it knows the other workers, this one is the first for each job
	case <-synced:
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
	var delay pause.Backoff
	for {
		select {
		case w.free <- struct{}{}:
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		}
		if w.failing.Load() {
			delay.Wait(w.ctx, 0)
		} else {
			delay = pause.Backoff{}
		}
		e := w.mirror.take(w.ctx)
		if e == nil {
			return context.Cause(w.ctx)
		}
		w.running.Go(func() {
			defer func() { <-w.free }()
			w.claim(e)
		})
	}
}

// follow applies the changes of the queue, and returns why it cannot go on. synced is called when they are all known.
func (w *worker) follow(synced func()) error {
	for ch, err := range store.New(w.q.client, w.q.keys.live, store.Bytes()).Watch(w.lasting) {
		if err != nil {
			return err
		}
		if err := w.mirror.apply(ch); err != nil {
			w.lg.Warn("ignores a key that belongs to no queue, or was written by a newer version",
				zap.String("key", ch.Key), zap.Int64("revision", ch.ModRevision), zap.Error(err))
		}
		if ch.Type == store.Synced {
			synced()
		}
	}
	return nil
}

// claim claims a job that seems to be free, and handles it.
func (w *worker) claim(e *entry) {
	defer w.mirror.drop(e.id)
	// A claim goes on when the term's context ends, so that its outcome is known.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), tryTimeout)
	defer cancel()
	if e.state.Attempts >= w.q.cfg.MaxAttempts {
		w.failed("cannot make a dead letter of a job", e, w.endJob(ctx, e))
		return
	}
	k := w.q.keys
	next := record{Attempts: e.state.Attempts + 1, Error: e.state.Error}
	payload, began := clientv3.OpGet(k.payloads+e.id), time.Now()
	resp, unsure, err := settle.Commit(ctx, func() clientv3.Txn {
		return w.q.client.Txn(ctx).If(w.unchanged(e)...).
			Then(payload, clientv3.OpPut(k.states+e.id, next.String()),
				clientv3.OpPut(k.claims+e.id, w.q.cfg.Worker, clientv3.WithLease(w.term.Lease()))).
			Else(payload, clientv3.OpGet(k.claims+e.id), clientv3.OpGet(k.states+e.id, clientv3.WithKeysOnly()))
	})
	w.mirror.took.Store(int64(time.Since(began)))
	if w.failed("cannot claim a job", e, err) {
		return
	}
	j := &Job{ID: e.id, Payload: string(optxn.Key(resp, 0).GetValue()), Attempt: next.Attempts, w: w, key: k.claims + e.id, state: next}
	switch {
	case resp.Succeeded:
		j.rev = resp.Header.Revision
	case unsure != nil && optxn.Key(resp, 1).GetLease() == int64(w.term.Lease()):
		j.rev = optxn.Key(resp, 1).CreateRevision // the first copy was executed
	default: // another worker was first
		w.mirror.overtaken(e, optxn.Key(resp, 2).GetModRevision())
		return
	}
	w.run(j)
}

// unchanged returns comparisons that hold while nothing has claimed or changed the job.
func (w *worker) unchanged(e *entry) []clientv3.Cmp {
	return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(w.q.keys.states+e.id), "=", e.rev), w.q.unclaimed(e.id)}
}

// endJob makes a dead letter of a job whose worker was lost in the last attempt.
func (w *worker) endJob(ctx context.Context, e *entry) error {
	k, r := w.q.keys, e.state.failed(errWorkerLost, time.Time{})
	_, _, err := settle.Commit(ctx, func() clientv3.Txn {
		return w.q.client.Txn(ctx).If(w.unchanged(e)...).
			Then(clientv3.OpDelete(k.states+e.id), clientv3.OpPut(k.deadLetters+e.id, r.String()))
	})
	return err
}

// failed reports whether a request for a job failed. If it did, the next ones are sent less often.
func (w *worker) failed(what string, e *entry, err error) bool {
	if w.failing.Store(err != nil); err != nil {
		w.lg.Warn(what, zap.String("job", e.id), zap.Error(err))
	}
	return err != nil
}

// returnLate returns a job whose claim no place has, unless all handlers have returned: the request of the claim was given up and
// executed nevertheless, or the job could neither be acknowledged nor given back.
func (w *worker) returnLate(e entry) {
	if w.lasting.Err() != nil {
		return
	}
	w.background.Go(func() {
		defer w.mirror.drop(e.id)
		_ = pause.For(w.lasting, time.Until(e.held)) // returnJob sees that it has ended
		var delay pause.Backoff
		for err := w.returnJob(e); err != nil && w.lasting.Err() == nil; err = w.returnJob(e) {
			w.lg.Warn("cannot return a job", zap.String("job", e.id), zap.Error(err))
			delay.Wait(w.lasting, 0)
		}
	})
}

// returnJob deletes a claim of this worker. If no handler was given the job, the attempt does not count.
func (w *worker) returnJob(e entry) error {
	ctx, cancel := context.WithTimeout(w.lasting, tryTimeout)
	defer cancel()
	k := w.q.keys
	held := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(k.claims+e.id), "=", e.claim)}
	ops := []clientv3.Op{clientv3.OpDelete(k.claims + e.id)}
	if e.handled != e.claim && e.rev == e.claim { // the state is what the claim wrote
		held = append(held, clientv3.Compare(clientv3.ModRevision(k.states+e.id), "=", e.rev))
		ops = append(ops, clientv3.OpPut(k.states+e.id, e.state.released().String()))
	}
	_, _, err := settle.Commit(ctx, func() clientv3.Txn { return w.q.client.Txn(ctx).If(held...).Then(ops...) })
	return err
}

// run calls the handler, and acknowledges the job or returns it to the queue.
func (w *worker) run(j *Job) {
	j.ctx, j.cancel = context.WithCancelCause(w.ctx)
	defer j.end(leaderelection.ErrReturned)
	w.mirror.running(j)
	err := cmp.Or(w.ctx.Err(), j.Err())
	defer func() { w.finish(j, err) }()
	if err == nil {
		err = errNotReturned // if the handler panics or calls Goexit
		err = w.handle(j.ctx, j)
	}
}

// finish acknowledges the job or returns it to the queue. When w.ctx has ended, or the handler has
// panicked, it gives up after finishTimeout: the job returns to the queue with the claim.
func (w *worker) finish(j *Job, err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	defer cancel()
	limit := func() {
		_ = pause.For(ctx, finishTimeout)
		cancel()
	}
	defer context.AfterFunc(w.ctx, limit)()
	failed := err
	if errors.Is(failed, errNotReturned) {
		go limit() // a panic is not held up for longer
	}
	switch {
	case j.acked.Load():
		return
	case failed == nil:
		err = j.Ack(ctx)
	case j.Err() != nil:
		err = j.Err() // the claim goes with the lease
	case w.ctx.Err() != nil:
		err = j.release(ctx)
	default:
		err = j.giveBack(ctx, failed)
	}
	if failed != nil || err != nil {
		w.lg.Warn("a job was not acknowledged", zap.String("job", j.ID), zap.Int("attempt", j.Attempt), zap.NamedError("failure", failed), zap.Error(err))
	}
}
