package leaderelection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/internal/pause"
)

var (
	// ErrNotRenewed is the cause of a term's end if no renewal of its lease was answered for
	// Config.TTL - Config.Margin.
	ErrNotRenewed = errors.New("the lease was not renewed in time")

	// ErrKeyDeleted is the cause of a term's end if its key was deleted, and its lease was not.
	ErrKeyDeleted = errors.New("the key was deleted")

	// ErrReturned is the cause of a term's end if its function has returned.
	ErrReturned = errors.New("the function has returned")
)

// TermEndedError reports that a term is over. It is the cause of the context of a term that was
// lost ([context.Cause]), and the error of fenced calls: those were not executed.
type TermEndedError struct {
	// Key is the key that was held, and Revision the revision that created it.
	Key      string
	Revision int64
	// Cause is [ErrNotRenewed], [ErrKeyDeleted], [ErrReturned], or the error of the session.
	Cause error
}

// Error returns the cause, with the key and its revision.
func (e *TermEndedError) Error() string {
	return fmt.Sprintf("leaderelection: the term of key %q, created at revision %d, is over: %v", e.Key, e.Revision, e.Cause)
}

// GRPCStatus has the code FailedPrecondition, for which retry.OutcomeOf says that a write was not
// executed.
func (e *TermEndedError) GRPCStatus() *status.Status {
	return status.New(codes.FailedPrecondition, e.Error())
}

// Unwrap returns the cause.
func (e *TermEndedError) Unwrap() error { return e.Cause }

// Term is the time for which Run holds the key. It is safe for concurrent use.
type Term struct {
	client  *clientv3.Client
	session *concurrency.Session
	margin  time.Duration
	key     string
	rev     int64
	since   time.Time

	// ctx is the function's. over lasts longer if Run's context ends: until the function has
	// returned. Its cause is a *TermEndedError.
	ctx, over       context.Context
	cancel, endTerm context.CancelCauseFunc
	returned        chan struct{} // closed when the function has returned
}

func newTerm(ctx context.Context, session *concurrency.Session, held *concurrency.Semaphore, margin time.Duration) *Term {
	t := &Term{
		client: session.Client(), session: session, margin: margin,
		key: held.Key(), rev: held.Rev(), since: time.Now(), returned: make(chan struct{}),
	}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.over, t.endTerm = context.WithCancelCause(context.WithoutCancel(ctx))
	return t
}

// Key returns the key that is held.
func (t *Term) Key() string { return t.key }

// Lease returns the lease of the key. Keys that are attached to it are deleted when Run resigns, and
// at the latest when the lease expires: [Config].Margin after the term.
func (t *Term) Lease() clientv3.LeaseID { return t.session.Lease() }

// Revision returns the revision that created the key: the fencing token. In an election or a
// lock it is greater than those of all earlier terms, so a system other than etcd that is given
// it with each request can refuse those with a smaller one than it has seen. The terms of a
// semaphore with several holders overlap, and only [Term.Fence] tells which are over.
func (t *Term) Revision() int64 { return t.rev }

// Fence returns the comparison that holds in a transaction while the term lasts, and never again.
func (t *Term) Fence() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(t.key), "=", t.rev)
}

// Since returns when this process learnt that it holds the key.
func (t *Term) Since() time.Time { return t.since }

// Deadline returns when the term ends unless its lease is renewed: Config.Margin before the
// lease may expire. Each answered renewal moves it.
func (t *Term) Deadline() time.Time { return t.session.Deadline().Add(-t.margin) }

// Err returns nil while the term lasts, and then a [*TermEndedError]. The end of Run's context
// does not end a term: that lasts until the function has returned.
func (t *Term) Err() error {
	if t.over.Err() == nil && time.Until(t.Deadline()) <= 0 {
		t.end(ErrNotRenewed) // the process did not run when the timer was due
	}
	return context.Cause(t.over)
}

// end ends the term, and the function's context with it. The first cause counts.
func (t *Term) end(cause error) {
	t.endTerm(&TermEndedError{Key: t.key, Revision: t.rev, Cause: cause})
	t.cancel(context.Cause(t.over))
}

// followLease ends the term when its lease is lost or may soon be.
func (t *Term) followLease() {
	for t.Err() == nil {
		select {
		case <-time.After(time.Until(t.Deadline())):
		case <-t.session.Done():
			t.end(t.session.Err())
		case <-t.over.Done():
		}
	}
}

// followKey ends the term when its key is deleted.
func (t *Term) followKey() {
	var delay pause.Backoff
	for from := t.rev + 1; t.over.Err() == nil; {
		began := time.Now()
		for resp := range t.client.Watch(t.over, t.key, clientv3.WithRev(from), clientv3.WithFilterPut()) {
			if len(resp.Events) > 0 {
				t.end(ErrKeyDeleted)
			}
		}
		// The watch has ended: with the term, by a compaction, or because the cluster was restored.
		delay.Wait(t.over, time.Since(began))
		resp, err := t.client.Get(t.over, t.key, clientv3.WithKeysOnly())
		switch {
		case err != nil:
		case len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != t.rev:
			t.end(ErrKeyDeleted)
		default:
			from = resp.Header.Revision + 1
		}
	}
}

// KV returns a KV over the client's, whose writes are executed only while the term lasts. Puts,
// deletes and transactions are sent as transactions that compare [Term.Fence]; their responses
// are those of the plain calls. After the term they fail with a [*TermEndedError] and are not
// executed, also those that reach a server late. A call after [Term.Deadline] is not sent.
//
// Gets and GetStreams are the client's. A transaction that only reads is fenced, too. One with
// comparisons is nested: it needs etcd 3.3 or newer. Compact cannot be fenced and is refused. An
// unknown outcome remains one: see *retry.UnknownOutcomeError.
func (t *Term) KV() clientv3.KV {
	return optxn.Fenced(t.client.KV, t, func() { t.end(ErrKeyDeleted) })
}

// Defaults of a Config.
const (
	DefaultTTL           = 15 * time.Second
	DefaultResignTimeout = 3 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// marginOfTTL is the part of the TTL that is the default margin.
const marginOfTTL = 5

// Config says which key Run holds, and how. The zero value of every field but Name is usable.
type Config struct {
	// Name names the election, lock or semaphore. A candidate's key is Name, a slash and its
	// lease in hexadecimal, as those of concurrency.Election, Mutex and Semaphore. No other key or
	// name may be below it: a key is taken for a candidate's. Required.
	Name string
	// Value is the value of the candidate's key, which tells others who holds it. The default
	// is the host name, a slash and the process id.
	Value string
	// Holders is how many may hold the key at a time; all processes must say the same. The
	// default, 1, is an election or a lock.
	Holders int

	// TTL is how long the key of a process that died stays: the TTL of the lease, rounded up to
	// whole seconds. Renewals are sent each third of it. The default is 15 s, the least 1 s;
	// etcd raises a TTL below about 2 s to that.
	TTL time.Duration
	// Margin is how long before the lease may expire a term ends whose lease could not be renewed.
	// It is the time for the function to return, and for clocks that run at different rates. A
	// term ends TTL - Margin after the last answered renewal was sent. The default is a fifth of
	// the TTL. It must be below two thirds of the TTL.
	Margin time.Duration
	// ResignTimeout bounds how long Run tries to revoke its lease when a term or a candidacy has
	// ended. If the cluster does not answer, the lease expires by itself. The default is 3 s, or
	// the TTL if shorter.
	ResignTimeout time.Duration

	// ReturnOnLoss makes Run return when a term is lost. Otherwise it campaigns again.
	ReturnOnLoss bool
	// RetryPeriod bounds the random pause before the next campaign, after a loss or a failure. It
	// doubles with each failure in a row, up to eightfold. The default is 2 s.
	RetryPeriod time.Duration

	// Hooks are called when the state changes.
	Hooks Hooks
	// Metrics, if it is not nil, counts the terms.
	Metrics *Metrics
}

// Hooks are functions that Run calls; nil ones are not called. They must return at once.
type Hooks struct {
	// StartedLeading is called when a term has begun, before the function.
	StartedLeading func(*Term)
	// StoppedLeading is called after each StartedLeading, when the function has returned or
	// panicked and before Run resigns. loss is nil, or why the term was lost before.
	StoppedLeading func(term *Term, loss error)
	// NewLeader is called for the leader at first, and for every new leader and new value. Some
	// that were soon replaced may be left out. It is called by a goroutine of its own until Run
	// returns, and costs a watch. It needs Holders of 1.
	NewLeader func(Leader)
}

// Leader is who holds the key of an election.
type Leader struct {
	// Value is the value of its key, see [Config.Value].
	Value string
	// Key is its key, and Revision the revision that created it.
	Key      string
	Revision int64
	// Since is when this process learnt it.
	Since time.Time
}

// complete returns the configuration with its defaults. The error names what is wrong.
func (c Config) complete() (Config, error) {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"TTL", c.TTL}, {"Margin", c.Margin}, {"ResignTimeout", c.ResignTimeout}, {"RetryPeriod", c.RetryPeriod}} {
		if d.value < 0 {
			return c, fmt.Errorf("leaderelection: Config.%s is %v: leave it out for the default, or set a positive duration", d.name, d.value)
		}
	}
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	c.Margin = cmp.Or(c.Margin, c.TTL/marginOfTTL)
	c.ResignTimeout = cmp.Or(c.ResignTimeout, min(DefaultResignTimeout, c.TTL))
	c.RetryPeriod = cmp.Or(c.RetryPeriod, DefaultRetryPeriod)
	c.Holders = cmp.Or(c.Holders, 1)
	if c.Value == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.Value = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	return c, c.check()
}

func (c Config) check() error {
	switch {
	case c.Name == "":
		return errors.New("leaderelection: Config.Name is empty: name the election, lock or semaphore")
	case c.Holders < 0:
		return fmt.Errorf("leaderelection: Config.Holders is %d: leave it out for an election, or set how many may hold the key", c.Holders)
	case c.TTL < time.Second || c.TTL > clientv3.MaxLeaseTTL*time.Second:
		return fmt.Errorf("leaderelection: Config.TTL is %v: set at least 1 s, and at most %v", c.TTL, clientv3.MaxLeaseTTL*time.Second)
	case c.RetryPeriod > math.MaxInt64>>maxDoublings:
		return fmt.Errorf("leaderelection: Config.RetryPeriod is %v: set at most %v", c.RetryPeriod, time.Duration(math.MaxInt64>>maxDoublings))
	case c.Margin >= c.TTL/3*2:
		return fmt.Errorf("leaderelection: Config.Margin is %v, and renewals of a TTL of %v are %v apart: set a margin below %v, or a longer TTL",
			c.Margin, c.TTL, c.TTL/3, c.TTL/3*2)
	case c.Hooks.NewLeader != nil && c.Holders > 1:
		return errors.New("leaderelection: Hooks.NewLeader needs Config.Holders of 1: a semaphore has no leader")
	}
	return nil
}

// seconds returns the TTL as a lease has it.
func (c Config) seconds() int64 { return int64((c.TTL + time.Second - 1) / time.Second) }
