package lockcheck

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// Check checks a history. The error says that its events contradict themselves, so
// that nothing can be checked.
func Check(h History) (Verdict, error) {
	if _, err := watchcheck.Check(watchcheck.Reference{Events: h.Events, Through: h.Through}, nil); err != nil {
		return Verdict{}, err
	}
	c := &checker{History: h, queues: lineUp(h.Locks, h.Events), made: map[string][]int64{}}
	var answers []history.Answer
	for _, a := range slices.Concat(h.Attempts...) {
		for _, w := range a.Writes {
			if w.Outcome != Unknown {
				answers = append(answers, history.Answer{Sent: w.Sent, Returned: w.Answered, Revision: w.Revision})
			}
		}
	}
	c.clock = history.NewClock(answers)
	c.registers()
	for contender, attempts := range h.Attempts {
		for _, a := range attempts {
			c.acquired(a)
			c.contested(a)
			c.truthful(a)
			c.released(a)
		}
		c.live(contender, attempts)
	}
	return c.verdict, nil
}

// checker is a history with its indexes, and the verdict so far.
type checker struct {
	History
	clock  *history.Clock
	queues *queues
	// made has the revisions at which each value was written to the register of its lock.
	made    map[string][]int64
	verdict Verdict
}

// describe returns an attempt in a few words: "Lock of /lock/a/ by contender 3 at
// 12.345s".
func (c *checker) describe(a *Attempt) string {
	return fmt.Sprintf("%v of %s by contender %d at %s", a.Style, c.Locks[a.Lock].Prefix, a.Contender, seconds(a.Called))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }

// atLeast returns a revision that the store had reached at a moment.
func (c *checker) atLeast(at time.Duration) int64 {
	revision, _, _ := c.clock.AtLeast(at)
	return max(revision, 1)
}

// atMost returns a revision that the store had not passed at a moment.
func (c *checker) atMost(at time.Duration) int64 {
	if revision, ok := c.clock.AtMost(at); ok {
		return revision
	}
	return c.Through
}

// registers checks [Guarded] for all writes in the registers, whatever their outcomes, and finds values that no contender sent.
func (c *checker) registers() {
	writers := map[string]*Attempt{}
	for _, a := range slices.Concat(c.Attempts...) {
		for _, w := range a.Writes {
			writers[w.Value] = a
		}
	}
	for i := range c.Events {
		e := &c.Events[i]
		lock := slices.IndexFunc(c.Locks, func(l LockKeys) bool { return l.Register == e.Key })
		if lock < 0 {
			continue
		}
		a := writers[e.Value]
		if a == nil || a.Lock != lock {
			c.verdict.Add(Truthful, "%v: nobody sent that, value %q", e, e.Value)
			continue
		}
		c.made[e.Value] = append(c.made[e.Value], e.ModRevision)
		if held := c.queues.byClaim[a.Claim]; held == nil || !held.holdsAt(e.ModRevision) {
			c.verdict.Add(Guarded, "%q was written to %s at revision %d for %s, whose claim is %v; %s",
				e.Value, e.Key, e.ModRevision, c.describe(a), a.Claim, c.queues.holder(lock, e.ModRevision))
		}
	}
}

// acquired checks [Acquired] for a call that returned success.
func (c *checker) acquired(a *Attempt) {
	if a.Answer != Taken {
		return
	}
	wrong := func(format string, args ...any) {
		c.verdict.Add(Acquired, c.describe(a)+" succeeded with "+a.Claim.String()+", "+format, args...)
	}
	e, low, high := c.queues.byClaim[a.Claim], c.atLeast(a.Called), c.atMost(a.Returned)
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

// contested checks [Contested] for a call that reports the lock as held by another.
func (c *checker) contested(a *Attempt) {
	low, high := c.atLeast(a.Called), c.atMost(a.Returned)
	if a.Answer == Locked && !slices.ContainsFunc(c.queues.byLock[a.Lock], func(e *entry) bool {
		return e.lease != a.Session && e.Revision <= high && e.gone > low
	}) {
		c.verdict.Add(Contested, "%s found it held by another session, and no other session had a key of it from revision %d to %d",
			c.describe(a), low, high)
	}
}

// truthful checks [Truthful] for the outcomes of writes.
func (c *checker) truthful(a *Attempt) {
	for _, w := range a.Writes {
		at := c.made[w.Value]
		wrong := func(format string, args ...any) {
			args = append([]any{w.Value, c.Locks[a.Lock].Register, w.Outcome}, args...)
			c.verdict.Add(Truthful, "the write of %q to %s is reported as %v, "+format, args...)
		}
		switch {
		case len(at) > 1:
			wrong("and it was made %d times, at revisions %v", len(at), at)
		case w.Outcome == Accepted && len(at) == 0:
			wrong("at revision %d, and it is not in the history", w.Revision)
		case w.Outcome == Accepted && at[0] != w.Revision:
			wrong("at revision %d, and it was made at revision %d", w.Revision, at[0])
		case w.Outcome == Refused && len(at) > 0:
			wrong("and it was made at revision %d", at[0])
		}
	}
}

// released checks [Released] for a call that gave the lock up.
func (c *checker) released(a *Attempt) {
	if a.Ending == "" {
		return
	}
	given := fmt.Sprintf("%s was %v at %s", c.describe(a), a.Ending, seconds(a.Ended))
	high := c.atMost(a.Ended)
	for _, e := range c.queues.byLease[a.Session] {
		if (e.Claim == a.Claim || a.Ending == Closed) && e.Revision <= high && e.gone > high {
			c.verdict.Add(Released, "%s, and %v was still there at revision %d, later than that", given, e.Claim, high)
		}
	}
	for _, w := range a.Writes {
		if at := c.made[w.Value]; w.Sent >= a.Ended && len(at) > 0 {
			c.verdict.Add(Released, "%s, and its write of %q, sent at %s, was made at revision %d", given, w.Value, seconds(w.Sent), at[0])
		}
	}
}

// live checks [Live] for a contender.
func (c *checker) live(contender int, attempts []*Attempt) {
	if c.Calm == 0 || slices.ContainsFunc(attempts, func(a *Attempt) bool { return a.Answer == Taken && a.Called >= c.Calm }) {
		return
	}
	last := ""
	if n := len(attempts); n > 0 && attempts[n-1].Err != nil {
		last = fmt.Sprintf("; its last attempt, %s, failed: %v", c.describe(attempts[n-1]), attempts[n-1].Err)
	}
	c.verdict.Add(Live, "contender %d took no lock although all was well from %s on%s", contender, seconds(c.Calm), last)
}

// forever is a revision after all others: keys that outlive the history are gone from
// it on, and keys that never become the oldest are the oldest from it on.
const forever = math.MaxInt64

// entry is one life of a key under the prefix of a lock: a place in the queue.
type entry struct {
	Claim
	// lease that the key was created with.
	lease int64
	// oldest is the revision from which no key of the lock was older, forever if
	// the key ended before. The key stands for the lock from there to gone.
	oldest int64
	// gone is the revision that deleted the key.
	gone int64
	// behind is the older key that this one waited for longest, nil if it waited for
	// none.
	behind *entry
}

// holdsAt reports whether the key stood for the lock in the state before a
// revision, which is what a guard of that revision looks at.
func (e *entry) holdsAt(revision int64) bool { return e.oldest < revision && revision <= e.gone }

// queues finds the entries of locks by their claims and leases, and has those of
// each lock in the order of their creation.
type queues struct {
	byClaim map[Claim]*entry
	byLease map[int64][]*entry
	byLock  [][]*entry
}

// lineUp replays the events of the locks.
func lineUp(locks []LockKeys, events []history.Event) *queues {
	q := &queues{byClaim: map[Claim]*entry{}, byLease: map[int64][]*entry{}, byLock: make([][]*entry, len(locks))}
	alive := map[string]*entry{}
	for _, e := range events {
		lock := slices.IndexFunc(locks, func(l LockKeys) bool { return strings.HasPrefix(e.Key, l.Prefix) })
		switch {
		case lock < 0:
		case e.Type == history.DeleteEvent:
			alive[e.Key].gone = e.ModRevision
			delete(alive, e.Key)
		case e.IsCreate():
			created := &entry{Claim: Claim{e.Key, e.ModRevision}, lease: e.Lease, oldest: forever, gone: forever}
			alive[e.Key] = created
			q.byClaim[created.Claim] = created
			q.byLease[e.Lease] = append(q.byLease[e.Lease], created)
			q.byLock[lock] = append(q.byLock[lock], created)
		}
	}
	for _, entries := range q.byLock {
		order(entries)
	}
	return q
}

// order finds out when each entry of a lock became the oldest: when the last of
// those that were created before it had gone.
func order(entries []*entry) {
	var last *entry
	for _, e := range entries {
		from := e.Revision
		if last != nil && last.gone > from {
			from, e.behind = last.gone, last
		}
		if from < e.gone {
			e.oldest = from
		}
		if last == nil || e.gone > last.gone {
			last = e
		}
	}
}

// holder says which key stood for a lock in the state before a revision.
func (q *queues) holder(lock int, revision int64) string {
	for _, e := range q.byLock[lock] {
		if e.holdsAt(revision) {
			return "the holder then was " + e.String()
		}
	}
	return "no contender held the lock then"
}
