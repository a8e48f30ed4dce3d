package lockcheck

import (
	"fmt"
	"slices"
	"strings"
)

// acquired checks every call that returned success.
func acquired(c *checker) {
	for i := range c.Attempts {
		a := &c.Attempts[i]
		if a.Answer != Taken {
			continue
		}
		wrong := func(format string, args ...any) {
			c.verdict.Add(Acquired, a.describe(c.Locks)+" succeeded with "+a.Claim.String()+", "+format, args...)
		}
		e := c.queues.byClaim[a.Claim]
		low, high := c.atLeast(a.Called), c.atMost(a.Returned)
		switch {
		case !strings.HasPrefix(a.Claim.Key, c.Locks[a.Lock].Prefix):
			wrong("which is not a key of the lock")
		case e == nil:
			wrong("which never existed")
		case e.lease != a.Session:
			wrong("which belongs to session %x; its own is %x", e.lease, a.Session)
		case e.oldest == forever:
			wrong("which never held the lock: it was deleted at revision %d, while %v was there from before, until revision %d",
				e.gone, e.behind.Claim, e.behind.gone)
		case e.oldest > high:
			wrong("which held the lock only from revision %d on, and when the call returned the store was at revision %d at most",
				e.oldest, high)
		case e.gone <= low:
			wrong("which was deleted at revision %d, and when the call was made the store was at revision %d at least", e.gone, low)
		}
	}
}

// contested checks every call that reports the lock as held by another.
func contested(c *checker) {
	for i := range c.Attempts {
		a := &c.Attempts[i]
		if a.Answer != Locked {
			continue
		}
		low, high := c.atLeast(a.Called), c.atMost(a.Returned)
		if !slices.ContainsFunc(c.queues.byLock[a.Lock], func(e *entry) bool { return e.lease != a.Session && e.Revision <= high && e.gone > low }) {
			c.verdict.Add(Contested, "%s found it held by another session, and no other session had a key of it from revision %d to %d",
				a.describe(c.Locks), low, high)
		}
	}
}

// released checks every call that gave a lock up.
func released(c *checker) {
	for _, r := range c.Releases {
		a := &c.Attempts[r.Attempt]
		given := fmt.Sprintf("%s was %v at %s", a.describe(c.Locks), r.Ending, seconds(r.Returned))
		high := c.atMost(r.Returned)
		for _, e := range c.givenUp(r) {
			if e.Revision <= high && e.gone > high {
				c.verdict.Add(Released, "%s, and %v was still there at revision %d, later than that", given, e.Claim, high)
			}
		}
		for _, w := range c.sent[r.Attempt] {
			if at := c.made[w]; w.Sent >= r.Returned && len(at) > 0 {
				c.verdict.Add(Released, "%s, and its write of %q, sent at %s, was made at revision %d", given, w.Value, seconds(w.Sent), at[0])
			}
		}
	}
}

// givenUp returns the keys that must be gone after a release.
func (c *checker) givenUp(r Release) []*entry {
	a := &c.Attempts[r.Attempt]
	if r.Ending == Closed {
		return c.queues.byLease[a.Session]
	}
	if e := c.queues.byClaim[a.Claim]; e != nil {
		return []*entry{e}
	}
	return nil
}

// live checks that every contender took a lock in the end.
func live(c *checker) {
	if c.Calm == 0 {
		return
	}
	took := make([]bool, c.Contenders)
	for i := range c.Attempts {
		if a := &c.Attempts[i]; a.Answer == Taken && a.Called >= c.Calm {
			took[a.Contender] = true
		}
	}
	for contender, ok := range took {
		if !ok {
			c.verdict.Add(Live, "contender %d took no lock although all was well from %s on%s", contender, seconds(c.Calm), c.lastWords(contender))
		}
	}
}

// lastWords returns the error of the contender's last attempt.
func (c *checker) lastWords(contender int) string {
	var last *Attempt
	for i := range c.Attempts {
		if a := &c.Attempts[i]; a.Contender == contender && (last == nil || a.Called > last.Called) {
			last = a
		}
	}
	if last == nil || last.Err == nil {
		return ""
	}
	return "; its last attempt, " + last.describe(c.Locks) + ", failed: " + last.Err.Error()
}
