package concurrency

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
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
