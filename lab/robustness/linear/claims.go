package linear

import "sync"

// firstWrite is the revision of the first write of any store.
const firstWrite = 2

// claims has the revisions of the store that are known to be those of a write: a write was answered with it, or what
// was written at it was seen.
type claims struct {
	mu      sync.RWMutex
	known   map[int64]bool
	highest int64
}

// add claims a revision, if it can be that of a write, and reports whether it was not claimed before.
func (c *claims) add(revision int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if revision < firstWrite || c.known[revision] {
		return false
	}
	if c.known == nil {
		c.known = map[int64]bool{}
	}
	c.known[revision] = true
	c.highest = max(c.highest, revision)
	return true
}

// has reports whether a revision is claimed.
func (c *claims) has(revision int64) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.known[revision]
}

// unclaimed returns the highest revision that is claimed, and how many below it are
// not.
func (c *claims) unclaimed() (highest, missing int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.highest, max(c.highest-firstWrite+1, 0) - int64(len(c.known))
}
