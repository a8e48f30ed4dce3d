package leasing

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/internal/pause"
)

// closeTimeout bounds how long a session takes to release its leasing keys. Without a
// response they expire with the lease.
const closeTimeout = time.Second

// session is the lease that the leasing keys are attached to.
type session struct {
	leaseSession
	inner *concurrency.Session
	// granted says that the lease was granted for this session.
	granted bool
	// ctx ends with the session.
	ctx    context.Context
	cancel context.CancelFunc
}

func (k *kv) openSession() (*session, error) {
	ctx, cancel := context.WithCancel(k.ctx)
	lease := &sessionLease{Lease: k.client.Lease, until: ctx}
	facade := clientv3.NewCtxClient(ctx, clientv3.WithZapLogger(k.client.GetLogger()))
	facade.Lease = lease
	inner, err := concurrency.NewSession(facade, k.sessionOpts...)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &session{inner: inner, granted: lease.granted, ctx: ctx, cancel: cancel}
	s.leaseSession = leaseSession{lease: inner.Lease(), aliveAt: s.certain}
	context.AfterFunc(inner.Ctx(), cancel)
	return s, nil
}

// driftShare is the fraction (1/driftShare) of a TTL that is not used, so a clock
// that is 1 % slower than the server's is still safe. Quartz clocks, and those that
// NTP steers, stay within 0.1 %.
const driftShare = 100

// certain reports whether the lease certainly lives at a time, which must not be in
// the future.
func (s *session) certain(now time.Time) bool {
	if s.ctx.Err() != nil {
		return false
	}
	// The order matters: a renewal in between extends the deadline.
	renewed := s.inner.LastRenewal()
	ttl := s.inner.Deadline().Sub(renewed)
	return !renewed.IsZero() && within(ttl, now.Sub(renewed), now.Round(0).Sub(renewed.Round(0)))
}

// within reports whether a lease still lives, given the time since its renewal by
// the monotonic clock and by the wall clock. Both are needed: the monotonic clock
// may stop while the machine is suspended, the wall clock may be set back.
func within(ttl, monotonic, wall time.Duration) bool {
	return max(monotonic, wall) < ttl-ttl/driftShare
}

// keepSession opens one session after the other until the KV is closed. It sends
// the result of the first to ready.
func (k *kv) keepSession(ready chan<- error) {
	var delay pause.Backoff
	for k.ctx.Err() == nil {
		began := time.Now()
		s, err := k.openSession()
		switch {
		case err == nil:
			k.serve(s, ready)
			ready = nil
		case ready != nil && (permanent(err) || k.ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))):
			// While the KV is open, the context that has ended is the one in the options.
			ready <- err
			return
		}
		delay.Wait(k.ctx, time.Since(began))
	}
	if ready != nil {
		ready <- k.ctx.Err()
	}
}

// serve uses a session until it ends.
func (k *kv) serve(s *session, ready chan<- error) {
	k.cache.start(&s.leaseSession)
	k.watchLeasingKeys(s, ready)
	k.cache.stop()
	s.cancel()
	s.inner.Orphan()
	k.giveUp(s)
}

// giveUp deletes the leasing keys of an ended session, so that others need not wait
// for its lease to expire. A lease from the user goes on: not only what was in memory
// is deleted, but also what is being released, or was acquired without a response.
func (k *kv) giveUp(s *session) {
	ctx, cancel := context.WithTimeout(k.client.Ctx(), closeTimeout)
	defer cancel()
	// After either error the leasing keys expire with the lease.
	if s.granted {
		_, _ = k.client.Revoke(ctx, s.lease)
		return
	}
	resp, err := k.remote.Get(ctx, k.prefix, clientv3.WithPrefix())
	if err != nil {
		return
	}
	var own []leasingKey
	for _, l := range resp.Kvs {
		if clientv3.LeaseID(l.Lease) == s.lease {
			own = append(own, leasingKey{string(l.Key), l.CreateRevision})
		}
	}
	_ = k.deleteKeys(ctx, own)
}

// sessionLease is the Lease that a session is made with. It records whether the
// session granted its lease, which the options do not show, and ends a grant when
// the KV is closed, whatever context the options have.
type sessionLease struct {
	clientv3.Lease
	until   context.Context
	granted bool
}

func (l *sessionLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.until, cancel)()
	resp, err := l.Lease.Grant(ctx, ttl)
	l.granted = err == nil
	return resp, err
}

// releaseQueue holds the leasing keys that this client has released and not yet
// deleted.
type releaseQueue struct {
	mu      sync.Mutex
	pending map[string]int64 // creation revision by name
	more    chan struct{}    // holds a token while pending may be non-empty
}

// add adds leasing keys. Of two incarnations of one, only the later can exist.
func (q *releaseQueue) add(keys ...leasingKey) {
	if len(keys) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range keys {
		q.pending[l.name] = max(q.pending[l.name], l.rev)
	}
	pause.Signal(q.more)
}

func (q *releaseQueue) take() []leasingKey {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := make([]leasingKey, 0, len(q.pending))
	for name, rev := range q.pending {
		keys = append(keys, leasingKey{name, rev})
	}
	clear(q.pending)
	return keys
}

// release deletes the queued leasing keys until the KV is closed.
func (k *kv) release() {
	for {
		select {
		case <-k.releases.more:
			// On an error the KV is closed, and the leasing keys are deleted with the
			// session, or the server refuses, and the next revocation requests it again.
			_ = k.deleteKeys(k.ctx, k.releases.take())
		case <-k.ctx.Done():
			return
		}
	}
}

func (k *kv) deleteKeys(ctx context.Context, keys []leasingKey) error {
	_, _, err := k.eachIf(ctx, keys, func(lkey string) clientv3.Op { return clientv3.OpDelete(lkey) })
	return err
}

// revoked is the value of a leasing key that its owner must delete. Otherwise the
// value is empty.
const revoked = "REVOKE"

// batch is how many leasing keys one transaction revokes or deletes. The transaction
// has one more operation; the server's limit is 128 by default.
const batch = 16

// eachIf executes an operation on each leasing key that is still the same
// incarnation, and repeats it until it has succeeded. It stops when ctx or the
// client ends, or when the server refuses. It returns the keys that were the same, and
// the revision of the first transaction.
func (k *kv) eachIf(ctx context.Context, keys []leasingKey, do func(lkey string) clientv3.Op) (same []leasingKey, rev int64, err error) {
	for part := range slices.Chunk(keys, batch) {
		ops := make([]clientv3.Op, len(part))
		for i, l := range part {
			isSame := clientv3.Compare(clientv3.CreateRevision(l.name), "=", l.rev)
			ops[i] = clientv3.OpTxn([]clientv3.Cmp{isSame}, []clientv3.Op{do(l.name)}, nil)
		}
		var resp *clientv3.TxnResponse
		for failures := 1; ; failures++ {
			if resp, err = k.remote.Txn(ctx).Then(ops...).Commit(); err == nil {
				break
			}
			if permanent(err) || k.client.Ctx().Err() != nil {
				return nil, 0, err
			}
			if err := pause.For(ctx, pauses.Delay(failures)); err != nil {
				return nil, 0, err
			}
		}
		for i, l := range part {
			if optxn.At(resp, i).GetResponseTxn().GetSucceeded() {
				same = append(same, l)
			}
		}
		rev = cmp.Or(rev, resp.Header.GetRevision())
	}
	return same, rev, nil
}

// awaitDeletion waits until the leasing keys, which existed at rev, are deleted. It
// may return earlier if the watch was compacted.
func (k *kv) awaitDeletion(ctx context.Context, keys []leasingKey, rev int64) error {
	if len(keys) == 0 {
		return nil
	}
	waiting := map[string]bool{}
	first, last := keys[0].name, keys[0].name
	for _, l := range keys {
		waiting[l.name] = true
		first, last = min(first, l.name), max(last, l.name)
	}
	deletions := clientv3.Events(ctx, k.client, first, clientv3.WithRange(last+"\x00"), clientv3.WithRev(rev+1), clientv3.WithFilterPut())
	for ev, err := range deletions {
		switch {
		case errors.Is(err, rpctypes.ErrCompacted):
			return nil
		case err != nil:
			return cmp.Or(k.client.Ctx().Err(), err)
		}
		if delete(waiting, string(ev.Kv.Key)); len(waiting) == 0 {
			return nil
		}
	}
	return nil
}
