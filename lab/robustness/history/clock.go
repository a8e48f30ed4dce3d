package history

import (
	"cmp"
	"slices"
	"time"
)

// Answer is a revision that the store had at some moment from Sent to Returned.
type Answer struct {
	Sent, Returned time.Duration
	Revision       int64
	// Call is the number of the call that was answered.
	Call int
}

// Clock bounds the revision that the store had at a moment. Revisions only grow, and nothing else is taken from clocks.
type Clock struct {
	// sent has the answers in the order of their calls, each with the lowest revision of itself and all later ones. returned
	// has them in the order of their returns, each with the highest revision of itself and all earlier ones.
	sent, returned []Answer
}

// NewClock returns the clock of some answers.
func NewClock(answers []Answer) *Clock {
	c := &Clock{sent: slices.Clone(answers), returned: slices.Clone(answers)}
	slices.SortStableFunc(c.sent, func(a, b Answer) int { return cmp.Compare(a.Sent, b.Sent) })
	for i := len(c.sent) - 2; i >= 0; i-- {
		if next := c.sent[i+1]; next.Revision < c.sent[i].Revision {
			c.sent[i].Revision, c.sent[i].Call = next.Revision, next.Call
		}
	}
	slices.SortStableFunc(c.returned, func(a, b Answer) int { return cmp.Compare(a.Returned, b.Returned) })
	for i := 1; i < len(c.returned); i++ {
		if last := c.returned[i-1]; last.Revision >= c.returned[i].Revision {
			c.returned[i].Revision, c.returned[i].Call = last.Revision, last.Call
		}
	}
	return c
}

// AtLeast returns the highest revision that had been answered before a moment, and to which call; ok is false if none had.
func (c *Clock) AtLeast(at time.Duration) (revision int64, call int, ok bool) {
	n, _ := slices.BinarySearchFunc(c.returned, at, func(a Answer, at time.Duration) int { return cmp.Compare(a.Returned, at) })
	if n == 0 {
		return 0, 0, false
	}
	return c.returned[n-1].Revision, c.returned[n-1].Call, true
}

// AtMost returns the lowest revision that was answered to a call made at a moment or later; ok is false if there was none.
func (c *Clock) AtMost(at time.Duration) (revision int64, ok bool) {
	n, _ := slices.BinarySearchFunc(c.sent, at, func(a Answer, at time.Duration) int { return cmp.Compare(a.Sent, at) })
	if n == len(c.sent) {
		return 0, false
	}
	return c.sent[n].Revision, true
}
