package linear

import (
	"math/bits"
	"sync"
)

// firstWrite is the revision of the first write of any store.
const firstWrite = 2

// claims has the revisions of the store that are known to be those of a write, a bit
// for each: a write was answered with it, or what was written at it was seen.
type claims struct {
	mu      sync.RWMutex
	bits    []uint64
	highest int64
}

// add claims a revision, if it can be that of a write.
func (c *claims) add(revision int64) {
	if revision < firstWrite {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for int64(len(c.bits)) <= revision/64 {
		c.bits = append(c.bits, 0)
	}
	c.bits[revision/64] |= 1 << (revision % 64)
	c.highest = max(c.highest, revision)
}

// has reports whether a revision is claimed.
func (c *claims) has(revision int64) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return revision >= 0 && revision <= c.highest && c.bits[revision/64]&(1<<(revision%64)) != 0
}

// unclaimed returns the highest revision that is claimed, and how many below it are
// not.
func (c *claims) unclaimed() (highest, missing int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var claimed int64
	for _, word := range c.bits {
		claimed += int64(bits.OnesCount64(word))
	}
	return c.highest, max(c.highest-firstWrite+1, 0) - claimed
}
