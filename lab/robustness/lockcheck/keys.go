package lockcheck

import (
	"math"
	"slices"
	"strings"

	"github.com/quorate/quorate/lab/robustness/history"
)

// forever is the revision at which a key ends that outlives the history, and at which
// one becomes the oldest that never does.
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
