package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/settle"
	"github.com/quorate/quorate/internal/pause"
)

var (
	// ErrKeyExists is returned by [Barrier.Hold] for a barrier that is held.
	ErrKeyExists = errors.New("key already exists")

	// ErrWaitMismatch is not returned by any function of this package.
	ErrWaitMismatch = errors.New("unexpected wait result")

	// ErrTooManyClients is returned by [DoubleBarrier.Enter] if all participants have
	// already entered.
	ErrTooManyClients = errors.New("too many clients")

	// ErrNoWatcher reports that a watch ended without a reason while its client is
	// open: the client's Watcher was closed, or violates the contract.
	ErrNoWatcher = errors.New("no watcher channel")
)

// sessionError returns why a session is lost, nil if it is not. The lease of a session that
// was orphaned, or whose context has ended, lives until its TTL has passed, or longer if
// another process keeps it alive, as in etcd's own lock service.
func sessionError(s *concurrency.Session) error {
	err := s.Err()
	for _, lost := range []error{
		concurrency.ErrSessionClosed, rpctypes.ErrLeaseNotFound, rpctypes.ErrNoLeader, clientv3.ErrLeaseUnanswered,
	} {
		if errors.Is(err, lost) {
			return fmt.Errorf("recipe: %w: %w", concurrency.ErrSessionExpired, err)
		}
	}
	return nil
}

// lostKeyError returns the error for a session's key that is gone.
func lostKeyError(s *concurrency.Session, key string) error {
	if err := sessionError(s); err != nil {
		return err
	}
	return fmt.Errorf("recipe: %w: its key %q was deleted, with the lease or by another client",
		concurrency.ErrSessionExpired, key)
}

// RemoteKV is a key that this package has put. It is not safe for concurrent use.
type RemoteKV struct {
	client *clientv3.Client // nil without a key, or after Delete
	key    string
	rev    int64
	val    string
	lease  clientv3.LeaseID
}

// Key returns the key.
func (rk *RemoteKV) Key() string { return rk.key }

// Revision returns the revision that created the key.
func (rk *RemoteKV) Revision() int64 { return rk.rev }

// Value returns the value that the key was created with.
func (rk *RemoteKV) Value() string { return rk.val }

// Delete deletes the key. After success, further calls do nothing.
func (rk *RemoteKV) Delete() error {
	if rk.deleted() {
		return nil
	}
	return rk.delete(rk.client.Ctx())
}

func (rk *RemoteKV) delete(ctx context.Context) error {
	if rk.deleted() {
		return nil
	}
	if _, err := rk.client.Delete(ctx, rk.key); err != nil {
		return err
	}
	rk.client = nil
	return nil
}

func (rk *RemoteKV) deleted() bool { return rk.client == nil }

// Put replaces the value of the key and keeps its lease. After Delete it fails. A key
// that another client has deleted is created again.
func (rk *RemoteKV) Put(val string) error {
	if rk.deleted() {
		return fmt.Errorf("recipe: the key %q was deleted", rk.key)
	}
	_, err := rk.client.Put(rk.client.Ctx(), rk.key, val, clientv3.WithLease(rk.lease))
	return err
}

// EphemeralKV is a key that is deleted when its session ends.
type EphemeralKV struct{ RemoteKV }

// createKey puts a key that must not exist yet; otherwise the error is ErrKeyExists. It is
// sent once: if its response is lost, the key may have been put and then deleted by
// others, and a repetition would put it a second time.
func createKey(c *clientv3.Client, key, val string) error {
	ctx := c.Ctx()
	resp, err := c.Txn(ctx).If(isFree(key)).Then(clientv3.OpPut(key, val)).Commit()
	if err == nil && !resp.Succeeded {
		return ErrKeyExists
	}
	return err
}

func isFree(key string) clientv3.Cmp { return clientv3.Compare(clientv3.Version(key), "=", 0) }

// lastName is the suffix of the newest name from uniqueKey.
var lastName atomic.Int64

// uniqueKey returns a key below a prefix that is unique in this process, and almost
// certainly outside: its suffix is the time in nanoseconds, or the previous suffix plus
// one if the clock has not advanced.
func uniqueKey(prefix string) string {
	for {
		last := lastName.Load()
		next := max(time.Now().UnixNano(), last+1)
		if lastName.CompareAndSwap(last, next) {
			return fmt.Sprintf("%s/%d", prefix, next)
		}
	}
}

// discardTimeout is the longest time that a server works on a request: 5 s plus
// twice the election timeout, 7 s by default. A member that has not answered by then
// will not answer.
const discardTimeout = 7 * time.Second

// discard deletes the key of a session, if it exists, after a failure. If that fails,
// the key is deleted with the session's lease.
func discard(s *concurrency.Session, key string) {
	if err := s.Err(); errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, clientv3.ErrLeaseUnanswered) {
		return
	}
	ctx, cancel := context.WithTimeout(s.Client().Ctx(), discardTimeout)
	defer cancel()
	isOurs := clientv3.Compare(clientv3.LeaseValue(key), "=", s.Lease())
	// The caller gets the first failure.
	_, _ = s.Client().Txn(ctx).If(isOurs).Then(clientv3.OpDelete(key)).Commit()
}

// member is a session's key in a recipe.
type member struct {
	session *concurrency.Session
	*EphemeralKV
}

// join puts a unique key for the session below a prefix. If it fails there is no key.
func join(ctx context.Context, s *concurrency.Session, prefix string) (*member, error) {
	for {
		key := uniqueKey(prefix)
		resp, unsure, err := settle.Commit(ctx, func() clientv3.Txn {
			return s.Client().Txn(ctx).If(isFree(key)).
				Then(clientv3.OpPut(key, "", clientv3.WithLease(s.Lease()))).
				Else(clientv3.OpGet(key))
		})
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return nil, fmt.Errorf("recipe: %w: %w", concurrency.ErrSessionExpired, err)
		case err != nil:
			discard(s, key)
			return nil, err
		case resp.Succeeded:
			return newMember(s, key, resp.Header.Revision), nil
		}
		found := optxn.Key(resp, 0)
		if unsure != nil && found.GetLease() == int64(s.Lease()) { // this name is unique
			return newMember(s, key, found.CreateRevision), nil
		}
	}
}

func newMember(s *concurrency.Session, key string, rev int64) *member {
	return &member{s, &EphemeralKV{RemoteKV{client: s.Client(), key: key, rev: rev, lease: s.Lease()}}}
}

// exists compares the key with the one that was put.
func (m *member) exists() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(m.key), "=", m.rev)
}

// found reports whether the key was there when it was read.
func (m *member) found(kvs []*mvccpb.KeyValue) bool {
	return len(kvs) == 1 && kvs[0].CreateRevision == m.rev
}

// whilePresent runs work, which waits, while the key exists. When the key is lost, or
// cannot be watched, the context of work ends, and the error is the reason.
func (m *member) whilePresent(ctx context.Context, work func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		err := waitGone(ctx, m.session.Client(), &mvccpb.KeyValue{Key: []byte(m.key), CreateRevision: m.rev}, m.rev)
		if err == nil {
			err = lostKeyError(m.session, m.key)
		}
		cancel(err)
	}()
	err := causeOf(ctx, work(ctx))
	cancel(nil)
	<-watched
	return err
}

// whileSession runs work while the session lives. When the session is lost the
// context of work ends, and the error says so.
func whileSession(s *concurrency.Session, work func(ctx context.Context) error) error {
	if err := sessionError(s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(s.Client().Ctx())
	defer cancel(nil)
	defer context.AfterFunc(s.Ctx(), func() {
		if err := sessionError(s); err != nil {
			cancel(err)
		}
	})()
	return causeOf(ctx, work(ctx))
}

// causeOf returns the cause of ctx, if it was cancelled, in place of err.
func causeOf(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || errors.Is(ctx.Err(), cause) {
		return err
	}
	return cause
}

// commitOnce is [settle.Commit] for a transaction that cannot be distinguished from others
// that make its condition fail. It reports whether the transaction was executed.
func commitOnce(ctx context.Context, txn func() clientv3.Txn) (bool, error) {
	resp, unsure, err := settle.Commit(ctx, txn)
	if err == nil && resp.Succeeded {
		return true, nil
	}
	return false, cmp.Or(unsure, err)
}

// WaitEvents waits until a key has had events of the types evs in this order,
// ignoring others in between, and returns the last of them. It watches from revision
// rev on, or from now on if rev is 0.
//
// It returns an error, and no event, if evs is empty, if the watch breaks
// (rpctypes.ErrCompacted if rev was compacted), or if the client is closed.
func WaitEvents(c *clientv3.Client, key string, rev int64, evs []mvccpb.Event_EventType) (*clientv3.Event, error) {
	return waitSequence(c, key, evs, clientv3.WithRev(rev))
}

// WaitPrefixEvents is [WaitEvents] for the combined events of all keys with a
// prefix.
func WaitPrefixEvents(c *clientv3.Client, prefix string, rev int64, evs []mvccpb.Event_EventType) (*clientv3.Event, error) {
	return waitSequence(c, prefix, evs, clientv3.WithRev(rev), clientv3.WithPrefix())
}

func waitSequence(c *clientv3.Client, key string, evs []mvccpb.Event_EventType, opts ...clientv3.OpOption) (*clientv3.Event, error) {
	if len(evs) == 0 {
		return nil, fmt.Errorf("recipe: waiting on %q: no event to wait for is given", key)
	}
	return waitEvent(c.Ctx(), c, key, func(ev *clientv3.Event) bool {
		if ev.Type == evs[0] {
			evs = evs[1:]
		}
		return len(evs) == 0
	}, opts...)
}

// waitEvent watches until accept returns true for an event, and returns the event.
func waitEvent(ctx context.Context, c *clientv3.Client, key string, accept func(*clientv3.Event) bool, opts ...clientv3.OpOption) (*clientv3.Event, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	responses := c.Watch(watching, key, opts...)
	if responses == nil { // a program's own Watcher may return nil
		return nil, fmt.Errorf("recipe: waiting on %q: %w", key, ErrNoWatcher)
	}
	for resp := range responses {
		if err := resp.Err(); err != nil {
			return nil, err
		}
		for _, ev := range resp.Events {
			if accept(ev) {
				return ev, nil
			}
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("recipe: waiting on %q: %w", key, context.Cause(ctx))
	}
	return nil, fmt.Errorf("recipe: waiting on %q: %w", key, ErrNoWatcher)
}

// waitFirst waits for an event of a key, or of one in the range of the options. After a compaction, which may end many
// watches at once, and the next ones too, it returns the error after a pause.
func waitFirst(ctx context.Context, c *clientv3.Client, key string, opts ...clientv3.OpOption) (*clientv3.Event, error) {
	ev, err := waitEvent(ctx, c, key, func(*clientv3.Event) bool { return true }, opts...)
	if errors.Is(err, rpctypes.ErrCompacted) {
		_ = pause.About(ctx, compactedPause) // the next request sees that it has ended
	}
	return ev, err
}

// compactedPause is the mean pause after a compaction.
const compactedPause = time.Second

// waitChange waits for an event of a key after a revision, and returns the key. If what follows the revision was compacted,
// it reads the key, nil if there is none, and changed tells whether it has changed.
func waitChange(ctx context.Context, c *clientv3.Client, key string, rev int64, filter clientv3.OpOption, changed func(*mvccpb.KeyValue) bool) (*mvccpb.KeyValue, error) {
	for {
		ev, err := waitFirst(ctx, c, key, clientv3.WithRev(rev+1), filter)
		if err == nil {
			return ev.Kv, nil
		}
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return nil, err
		}
		resp, err := c.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		var kv *mvccpb.KeyValue
		if len(resp.Kvs) > 0 {
			kv = resp.Kvs[0]
		}
		if changed(kv) {
			return kv, nil
		}
		rev = resp.Header.Revision
	}
}

// waitGone waits until a key that was read at a revision is deleted. A later key
// with the same name is another one.
func waitGone(ctx context.Context, c *clientv3.Client, kv *mvccpb.KeyValue, rev int64) error {
	_, err := waitChange(ctx, c, string(kv.Key), rev, clientv3.WithFilterPut(), func(now *mvccpb.KeyValue) bool {
		return now.GetCreateRevision() != kv.CreateRevision
	})
	return err
}
