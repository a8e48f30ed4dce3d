package lockcheck

import (
	"cmp"
	"slices"
	"time"
)

// observation is a revision that the store had at some moment between two others.
type observation struct {
	from, until time.Duration
	revision    int64
}

// clock bounds the revision that the store had at a moment. Revisions only grow, and
// the answer to a guarded write, whichever it was, tells the one at which the store
// stood between call and return.
type clock struct {
	// sent has the observations in the order in which they began, each with the lowest
	// revision of those that began with it or later; answered has them in the order
	// in which they ended, each with the highest of those that ended with it or
	// before.
	sent, answered []observation
	through        int64
}

// newClock takes the observations from writes. No revision is beyond through.
func newClock(writes []Write, through int64) *clock {
	c := &clock{through: through}
	for _, w := range writes {
		if w.Outcome != Unknown {
			c.sent = append(c.sent, observation{w.Sent, w.Answered, w.Revision})
		}
	}
	c.answered = slices.Clone(c.sent)
	slices.SortFunc(c.sent, func(a, b observation) int { return cmp.Compare(a.from, b.from) })
	for i := len(c.sent) - 2; i >= 0; i-- {
		c.sent[i].revision = min(c.sent[i].revision, c.sent[i+1].revision)
	}
	slices.SortFunc(c.answered, func(a, b observation) int { return cmp.Compare(a.until, b.until) })
	for i := 1; i < len(c.answered); i++ {
		c.answered[i].revision = max(c.answered[i].revision, c.answered[i-1].revision)
	}
	return c
}

// atLeast returns a revision that the store had reached at a moment.
func (c *clock) atLeast(t time.Duration) int64 {
	i, _ := slices.BinarySearchFunc(c.answered, t, func(s observation, t time.Duration) int {
		if s.until <= t {
			return -1
		}
		return 1
	})
	if i == 0 {
		return 1
	}
	return c.answered[i-1].revision
}

// atMost returns a revision that the store had not gone beyond at a moment.
func (c *clock) atMost(t time.Duration) int64 {
	i, _ := slices.BinarySearchFunc(c.sent, t, func(s observation, t time.Duration) int { return cmp.Compare(s.from, t) })
	if i == len(c.sent) {
		return c.through
	}
	return c.sent[i].revision
}
