package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/settle"
	"github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

const (
	// tryTimeout bounds one try of a worker's transaction. A job is left alone for tryAgain after a claim.
	tryTimeout = 5 * time.Second
	tryAgain   = 250 * time.Millisecond
	// finishTimeout bounds how long a worker that ends tries to acknowledge a job, or to return it.
	finishTimeout = 2 * tryTimeout
)

// Job is a job that this process has claimed. It is safe for concurrent use.
type Job struct {
	// ID and Payload are those of Enqueue.
	ID, Payload string
	// Attempt is 1 when the job is handled for the first time.
	Attempt int

	w      *worker
	key    string // of the claim
	rev    int64
	state  record
	ctx    context.Context // of the handler
	cancel context.CancelCauseFunc
	over   atomic.Pointer[leaderelection.TermEndedError] // set when the claim is over
	acked  atomic.Bool
	ending atomic.Bool           // this process is deleting the claim
	unsure atomic.Pointer[error] // of an Ack or another end of the claim whose outcome is unknown
}

// Revision returns the revision that created the claim: the fencing token. It is greater than those
// of all earlier claims of the job.
func (j *Job) Revision() int64 { return j.rev }

// Fence returns the comparison that holds in a transaction while the job is claimed by this worker,
// and never again.
func (j *Job) Fence() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(j.key), "=", j.rev)
}

// KV returns a KV over the client's, whose writes are executed only while the job is claimed by
// this worker: see leaderelection.Term.KV.
func (j *Job) KV() clientv3.KV {
	return optxn.Fenced(j.w.q.client.KV, j, func() { j.end(leaderelection.ErrKeyDeleted) })
}

// Err returns nil while the claim lasts, and then a *leaderelection.TermEndedError. It says nothing
// about the end of Work's context. After [Job.Ack], and when the handler has returned, the claim is over.
func (j *Job) Err() error {
	if lost := j.over.Load(); lost != nil {
		return lost
	}
	return j.w.term.Err()
}

// end ends the claim, and the context of the handler.
func (j *Job) end(cause error) {
	j.over.CompareAndSwap(nil, &leaderelection.TermEndedError{Key: j.key, Revision: j.rev, Cause: cause})
	j.cancel(j.over.Load())
}

// Ack acknowledges the job and executes ops, in one transaction and at most once. A handler that
// calls it has nothing more to do. A handler that returns nil without it acknowledges the job.
//
// An answer that was lost is made up for by sending the transaction again, until ctx ends or the
// claim may be lost; only then is the outcome unknown. The error is
//
//   - a *leaderelection.TermEndedError: the claim was lost, and nothing was executed;
//   - the server's or the client's, on which retry.OutcomeOf tells whether it may have been executed.
//
// The context of the handler ends when the job is acknowledged.
func (j *Job) Ack(ctx context.Context, ops ...clientv3.Op) error {
	k := j.w.q.keys
	all := append([]clientv3.Op{clientv3.OpDelete(j.key), clientv3.OpDelete(k.states + j.ID), clientv3.OpDelete(k.payloads + j.ID)}, ops...)
	err := j.commit(ctx, true, all...)
	if err == nil {
		j.acked.Store(true)
		j.end(errAcked)
	}
	return err
}

var errAcked = errors.New("the job was acknowledged")

// giveBack returns the job to the queue after a failure, or makes it a dead letter.
func (j *Job) giveBack(ctx context.Context, err error) error {
	cfg, k := j.w.q.cfg, j.w.q.keys
	if j.state.Attempts >= cfg.MaxAttempts {
		return j.commit(ctx, true, clientv3.OpDelete(j.key), clientv3.OpDelete(k.states+j.ID),
			clientv3.OpPut(k.deadLetters+j.ID, j.state.failed(err, time.Time{}).String()))
	}
	notBefore := time.Now().Add(cfg.backoff(j.state.Attempts))
	return j.commit(ctx, false, clientv3.OpDelete(j.key), clientv3.OpPut(k.states+j.ID, j.state.failed(err, notBefore).String()))
}

// release returns the job to the queue as if it had not been claimed.
func (j *Job) release(ctx context.Context) error {
	return j.commit(ctx, false, clientv3.OpDelete(j.key), clientv3.OpPut(j.w.q.keys.states+j.ID, j.state.released().String()))
}

// commit executes operations, one of which deletes the claim, if the claim is held: so they are not
// executed twice, and may be sent again. It tries until that is done, ctx ends, or the claim may be
// lost. deletesState says that they delete the job's state, which tells whether they were executed.
func (j *Job) commit(ctx context.Context, deletesState bool, ops ...clientv3.Op) error {
	j.ending.Store(true)
	defer j.ending.Store(false)
	state := clientv3.OpGet(j.w.q.keys.states+j.ID, clientv3.WithKeysOnly())
	var unsure error
	var delay pause.Backoff
	for {
		lasted := j.Err() == nil
		try, cancel := context.WithTimeout(ctx, tryTimeout)
		resp, u, err := settle.Commit(try, func() clientv3.Txn {
			return j.w.q.client.Txn(try).If(j.Fence()).Then(ops...).Else(state)
		})
		cancel()
		if u != nil {
			unsure = u
			j.unsure.Store(&u)
		}
		switch {
		case err != nil && (!lasted || ctx.Err() != nil || !transient(err)):
			return cmp.Or(unsure, err)
		case err != nil:
			delay.Wait(ctx, 0) // the next try sees that it has ended
			continue
		case resp.Succeeded:
		case unsure == nil && j.unsure.Load() == nil || deletesState && j.has(optxn.Key(resp, 0)):
			j.end(leaderelection.ErrKeyDeleted)
			return j.Err()
		case unsure == nil: // not these operations, but those of an earlier call may have been executed
			j.end(leaderelection.ErrKeyDeleted)
			return *j.unsure.Load()
		case j.Err() != nil:
			return unsure // another worker may have had the job meanwhile
		}
		// An earlier copy was executed, or this one: while the claim lasts, only this worker deletes it.
		j.w.mirror.settled(j)
		return nil
	}
}

// has reports whether a state is the job's, and not that of a later job with its id.
func (j *Job) has(state *mvccpb.KeyValue) bool { return state != nil && state.CreateRevision <= j.rev }

// transient reports whether the next try may succeed after err.
func transient(err error) bool {
	if unknown, ok := errors.AsType[*retry.UnknownOutcomeError](err); ok {
		err = unknown.Err
	}
	switch retry.Classify(err, retry.Evidence{Sent: true}) {
	case retry.Definite, retry.Executed, retry.Closed:
		return false
	default:
		return true
	}
}

// Defaults of a Config.
const (
	DefaultMaxAttempts = 10
	DefaultMinBackoff  = time.Second
	DefaultMaxBackoff  = 5 * time.Minute
)

// Config configures a [Queue]. Name is required; a zero field has its default.
type Config struct {
	// Name is what all keys of the queue begin with, before a slash. No name may be below another's.
	Name string

	// MaxAttempts is how often a job is handled at most before it is a dead letter. The default is 10.
	MaxAttempts int
	// MinBackoff and MaxBackoff bound the time before a job is handled again: between half and all
	// of MinBackoff after the first attempt, and twice as long after each further one, up to
	// MaxBackoff. After the loss of a process, each other one counts it from when it learns of the loss. The defaults are
	// 1 s and 5 min. The processes that work decide: give them the same configuration.
	MinBackoff, MaxBackoff time.Duration

	// TTL is how long the claims of a process that died stay, and Margin how long before that the
	// contexts of its handlers end: see leaderelection.Config. The defaults are 15 s and a fifth of
	// the TTL.
	TTL, Margin time.Duration
	// Worker is what [Status] calls the process. The default is the host name, a slash and the process id.
	Worker string
}

func (c Config) complete() (Config, error) {
	c.MaxAttempts = cmp.Or(c.MaxAttempts, DefaultMaxAttempts)
	c.MinBackoff = cmp.Or(c.MinBackoff, DefaultMinBackoff)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, max(DefaultMaxBackoff, c.MinBackoff))
	if c.Worker == "" {
		host, _ := os.Hostname() // "" if it has none
		c.Worker = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	switch {
	case strings.Trim(c.Name, "/") == "":
		return c, errors.New("jobs: Config.Name is empty: name the queue")
	case c.MaxAttempts < 0:
		return c, fmt.Errorf("jobs: Config.MaxAttempts is %d: leave it out for %d, or set at least 1", c.MaxAttempts, DefaultMaxAttempts)
	case c.MinBackoff < 0 || c.MaxBackoff < c.MinBackoff:
		return c, fmt.Errorf("jobs: Config.MinBackoff is %v and MaxBackoff %v: set positive durations, the second no shorter than the first",
			c.MinBackoff, c.MaxBackoff)
	}
	return c, nil
}

// backoff returns the time before the next attempt, after that many.
func (c Config) backoff(attempts int) time.Duration {
	bound := c.MinBackoff
	for i := 1; i < attempts && bound < c.MaxBackoff; i++ {
		bound += min(bound, c.MaxBackoff-bound) // does not overflow
	}
	half := bound / 2
	return half + rand.N(half+1)
}
