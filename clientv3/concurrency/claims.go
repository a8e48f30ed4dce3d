package concurrency

import (
	"context"
	"sync"
	"time"
)

// claims lists who of a session is at which key: the waiters of mutexes and elections that
// try to get it, or have it. All those with one prefix share one key, because its name is
// made of the prefix and the lease. The zero value is ready to use.
//
// Whoever deletes a key spares what another waiter has, and meanwhile nobody begins to use
// the key: who came in between would take one for its own that is about to go.
type claims struct {
	mu    sync.Mutex
	byKey map[string]*claim
}

type claim struct {
	// users are the waiters at the key, each with the revision that created the key it
	// has: 0 while it tries.
	users   map[*waiter]int64
	removal chan struct{} // closed at the end of the removal in progress, nil if there is none
	// deleteRev is the revision of the last key whose deletion nobody has confirmed: a request
	// may yet delete it. 0 if a later key was put.
	deleteRev int64

	// settled receives when a waiter no longer tries. It is nil if the key is not cleaned up.
	settled    chan struct{}
	sweptUntil time.Time
}

// enter counts a waiter in, as one that tries. It waits for the end of a removal; the error
// is that of ctx.
func (c *claims) enter(ctx context.Context, p *waiter) error {
	for {
		removal := c.tryEnter(p)
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

// tryEnter returns nil if it has counted the waiter in, and otherwise what to wait for.
func (c *claims) tryEnter(p *waiter) (removal <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.atLocked(p.key)
	if cl.removal != nil {
		return cl.removal
	}
	cl.users[p] = 0
	return nil
}

// hold says that the waiter has the key that was created at rev.
func (c *claims) hold(p *waiter, rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.atLocked(p.key)
	cl.users[p] = rev
	if rev > cl.deleteRev {
		cl.deleteRev = 0
	}
	cl.settleLocked()
}

// leave counts a waiter out, if it is in.
func (c *claims) leave(p *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.atLocked(p.key)
	delete(cl.users, p)
	cl.settleLocked()
	c.forgetLocked(p.key)
}

// remove begins a removal by one of the waiters, or by none of them, and tells which keys
// other waiters have. It is refused while another one tries. The caller ends the removal by
// calling end, before it leaves.
func (c *claims) remove(key string, by *waiter) (spared []int64, end func(), begun bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.atLocked(key)
	defer c.forgetLocked(key)
	if cl.removal != nil {
		return nil, nil, false
	}
	for p, rev := range cl.users {
		switch {
		case p == by:
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

// scheduleDelete says that a request may yet delete the key that was created at rev.
func (c *claims) scheduleDelete(key string, rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.atLocked(key)
	cl.deleteRev = max(cl.deleteRev, rev)
}

// deleteScheduled reports whether a request may yet delete the key that was created at rev.
func (c *claims) deleteScheduled(key string, rev int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.byKey[key]
	return cl != nil && rev <= cl.deleteRev
}

// beginCleanup says that the key is cleaned up until then. It returns nil if it is cleaned up already, and
// otherwise a channel that receives when a waiter no longer tries.
func (c *claims) beginCleanup(key string, until time.Time) (settled <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.atLocked(key)
	cl.sweptUntil = until
	if cl.settled != nil {
		return nil
	}
	cl.settled = make(chan struct{}, 1)
	return cl.settled
}

// endCleanup returns for how long the key is still to be cleaned up. If it is no more, that has
// ended.
func (c *claims) endCleanup(key string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.atLocked(key)
	left := time.Until(cl.sweptUntil)
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

// forgetLocked forgets a key that is of no interest any more.
func (c *claims) forgetLocked(key string) {
	if cl := c.byKey[key]; len(cl.users) == 0 && cl.removal == nil && cl.settled == nil && cl.deleteRev == 0 {
		delete(c.byKey, key)
	}
}

func (cl *claim) settleLocked() {
	if cl.settled == nil {
		return
	}
	select {
	case cl.settled <- struct{}{}:
	default:
	}
}
