package concurrency

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/settle"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// claims lists the waiters of a session by key: the mutexes and elections that try to get
// the key, or hold it. Waiters with the same prefix share one key, because its name
// consists of the prefix and the lease. The zero value is ready to use.
//
// A deletion spares the key of another waiter. While it runs no waiter may enter: it would
// adopt a key that is about to be deleted.
type claims struct {
	mu    sync.Mutex
	byKey map[string]*claim
}

type claim struct {
	// users maps each waiter to the revision that created its key, 0 while it tries.
	users   map[*waiter]int64
	removal chan struct{} // closed at the end of the removal in progress, nil if there is none
	// deleteRev is the revision of the last key with an unconfirmed deletion: a late request
	// may still delete it. 0 if a later key was put.
	deleteRev int64

	// settled receives when a waiter no longer tries. It is nil if the key is not cleaned up.
	settled      chan struct{}
	cleanupUntil time.Time
}

// enter adds a waiter, as one that tries. It waits for the end of a removal; the error is
// that of ctx.
func (c *claims) enter(ctx context.Context, w *waiter) error {
	for {
		c.mu.Lock()
		cl := c.atLocked(w.key)
		removal := cl.removal
		if removal == nil {
			cl.users[w] = 0
		}
		c.mu.Unlock()
		if removal == nil {
			return nil
		}
		select {
		case <-removal:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hold records that the waiter holds the key created at rev.
func (c *claims) hold(w *waiter, rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.atLocked(w.key)
	cl.users[w] = rev
	if rev > cl.deleteRev {
		cl.deleteRev = 0
	}
	cl.settleLocked()
}

func (c *claims) leave(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.atLocked(w.key)
	delete(cl.users, w)
	cl.settleLocked()
	c.forgetLocked(w.key)
}

// remove begins a removal by one of the waiters, or by none of them, and returns the
// revisions of the keys that other waiters hold. It fails while another waiter tries. The
// caller calls end to end the removal, before leave.
func (c *claims) remove(key string, by *waiter) (spared []int64, end func(), begun bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.atLocked(key)
	defer c.forgetLocked(key)
	if cl.removal != nil {
		return nil, nil, false
	}
	for w, rev := range cl.users {
		switch {
		case w == by:
		case rev == 0:
			return nil, nil, false
		default:
			spared = append(spared, rev)
		}
	}
	cl.removal = make(chan struct{})
	return spared, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(cl.removal)
		cl.removal = nil
		c.forgetLocked(key)
	}, true
}

// scheduleDelete records that a request may still delete the key created at rev.
func (c *claims) scheduleDelete(key string, rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.atLocked(key)
	cl.deleteRev = max(cl.deleteRev, rev)
}

// deleteScheduled reports whether a request may still delete the key created at rev.
func (c *claims) deleteScheduled(key string, rev int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.byKey[key]
	return cl != nil && rev <= cl.deleteRev
}

// beginCleanup starts the cleanup of a key until the given time. It returns nil if a cleanup
// already runs, and otherwise a channel that receives when a waiter no longer tries.
func (c *claims) beginCleanup(key string, until time.Time) (settled <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.atLocked(key)
	cl.cleanupUntil = until
	if cl.settled != nil {
		return nil
	}
	cl.settled = make(chan struct{}, 1)
	return cl.settled
}

// endCleanup returns the remaining time of the key's cleanup. At 0 or less the cleanup has
// ended.
func (c *claims) endCleanup(key string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.atLocked(key)
	left := time.Until(cl.cleanupUntil)
	if left <= 0 {
		cl.settled = nil
		c.forgetLocked(key)
	}
	return left
}

func (c *claims) atLocked(key string) *claim {
	if c.byKey == nil {
		c.byKey = make(map[string]*claim)
	}
	if c.byKey[key] == nil {
		c.byKey[key] = &claim{users: make(map[*waiter]int64)}
	}
	return c.byKey[key]
}

// forgetLocked drops the record of a key without waiters, deletions or cleanup.
func (c *claims) forgetLocked(key string) {
	if cl := c.byKey[key]; len(cl.users) == 0 && cl.removal == nil && cl.settled == nil && cl.deleteRev == 0 {
		delete(c.byKey, key)
	}
}

func (cl *claim) settleLocked() {
	if cl.settled != nil {
		pause.Signal(cl.settled)
	}
}

const (
	// cleanupTimeout bounds how long a failed call tries to delete its key: 1 s until
	// the client detects an unresponsive member, and two of etcd's election timeouts, 1
	// s each by default, to replace a leader.
	cleanupTimeout = 3 * time.Second

	// leftoverTimeout bounds the cleanup of a key. Linux gives up retransmission after about that
	// time (net.ipv4.tcp_retries2). A member that is stopped for longer is too rare to justify a
	// permanent watch for each such key.
	leftoverTimeout = 15 * time.Minute
)

// discard deletes the key created at rev, unless it is in spared. If rev is 0, discard
// first reads the key that belongs to the session: an unconditional delete could be
// executed late, and delete the key of a later lock. The read is a transaction that could
// write, so the cluster executes it after the request that puts the key, if it has received
// that; a plain read may be executed before.
func (s *Session) discard(ctx context.Context, key string, rev int64, spared []int64) error {
	if rev == 0 {
		never := clientv3.Compare(clientv3.Version(key), "<", 0)
		resp, _, err := settle.Commit(ctx, func() clientv3.Txn {
			return s.client.Txn(ctx).If(never).Then(clientv3.OpDelete(key)).Else(clientv3.OpGet(key)) // WithKeysOnly would omit the lease
		})
		if err != nil {
			return err
		}
		own := optxn.Key(resp, 0)
		if own.GetLease() != int64(s.id) {
			return nil
		}
		rev = own.CreateRevision
	}
	if slices.Contains(spared, rev) {
		return nil
	}
	_, err := s.remove(ctx, key, rev)
	return err
}

// cleanups are the cleanups of a session that run.
type cleanups struct {
	mu      sync.Mutex // no cleanup begins when ctx has ended
	running sync.WaitGroup
}

func (c *cleanups) begin(ctx context.Context, run func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() == nil {
		c.running.Go(run)
	}
}

// wait returns when all cleanups have ended. It needs the context of begin to have
// ended.
func (c *cleanups) wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running.Wait()
}

// cleanupKey makes the session delete a key whenever it exists without a holder in the session,
// from now on and for leftoverTimeout. It is for a key that could not be deleted, and for one
// that a request with unknown outcome may still put: a stopped member executes that request when
// it continues, and the lock would have no owner.
//
// A session does so only for a lease that it granted. With WithLease, another
// session with the same lease could hold the key.
func (s *Session) cleanupKey(key string) {
	if s.opts.leaseID != clientv3.NoLease {
		return
	}
	if settled := s.claims.beginCleanup(key, time.Now().Add(leftoverTimeout)); settled != nil {
		s.cleanups.begin(s.ctx, func() { s.runCleanup(key, settled) })
	}
}

// runCleanup cleans up until that is done or the session ends. Its pauses delay only the waiters behind the key.
func (s *Session) runCleanup(key string, settled <-chan struct{}) {
	var delay pause.Backoff
	for began := time.Now(); !s.cleanupUntilFault(key, settled) && s.ctx.Err() == nil; began = time.Now() {
		delay.Wait(s.ctx, time.Since(began))
	}
}

// cleanupUntilFault returns false if a deletion or the watch failed, and true when the
// cleanup is done.
func (s *Session) cleanupUntilFault(key string, settled <-chan struct{}) (done bool) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	appeared := s.client.Watch(ctx, key, clientv3.WithFilterDelete())
	for s.cleaned(key) {
		left := s.claims.endCleanup(key)
		if left <= 0 {
			return true
		}
		select {
		case <-settled:
		case <-time.After(left):
		case _, open := <-appeared:
			if !open {
				return false
			}
		}
	}
	return false
}

// cleaned deletes the key if no waiter holds it. It returns true if the key is deleted,
// every deletion would be refused, or a waiter tries to get the key, which postpones the
// deletion.
func (s *Session) cleaned(key string) bool {
	spared, end, begun := s.claims.remove(key, nil)
	if !begun {
		return true
	}
	defer end()
	ctx, cancel := context.WithTimeout(s.ctx, cleanupTimeout)
	defer cancel()
	err := s.discard(ctx, key, 0, spared)
	return err == nil || retry.Classify(err, retry.Evidence{Sent: true}) == retry.Definite
}
