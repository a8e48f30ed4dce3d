package locks

import (
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

const (
	// sessionTTL is the time to live of a session in seconds: as short as etcd's
	// clients can keep alive through the change of a leader.
	sessionTTL = 2
	lifetime   = sessionTTL * time.Second
	// shortestPause and longestPause bound the pauses. Most outlast the lease, which etcd revokes up to half a second late, and
	// renews when it has a new leader.
	shortestPause, longestPause = lifetime / 2, 3 * lifetime

	// waitTimeout is how long a contender waits for a lock, long enough for a fault and
	// the leases of two abandoned sessions to pass. Some have less, shortestWait
	// to longestShortWait.
	waitTimeout                    = 12 * time.Second
	shortestWait, longestShortWait = 20 * time.Millisecond, 1500 * time.Millisecond
	// longestPauseDelay bounds the time between a call and the pause of the caller.
	longestPauseDelay = 300 * time.Millisecond
	// mostWrites and longestGap bound the guarded writes of a holder and the time
	// before each.
	mostWrites = 5
	longestGap = 60 * time.Millisecond
)

// incident is what happens to a contender.
type incident uint8

const (
	// nothing: the lock is taken, written under, and given up.
	nothing incident = iota
	// pausedWaiting: the contender is paused while it waits for the lock.
	pausedWaiting
	// pausedHolding: the holder is paused between two writes.
	pausedHolding
	// delayed: the holder is paused with a write on its way.
	delayed
	// orphaned: the holder ends its renewals and goes on writing.
	orphaned
	// closed: the holder closes its session and goes on writing.
	closed
)

// incidents is the list from which incidents are drawn: half of the rounds have none.
var incidents = []incident{
	nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing,
	pausedWaiting, pausedWaiting, pausedHolding, pausedHolding, pausedHolding, delayed, orphaned, closed,
}

// plan is what a contender is going to do in a round, and what happens to it.
type plan struct {
	lock        int
	style       lockcheck.Style
	waitTimeout time.Duration
	incident    incident
	// pauseDelay is how long after the call a waiter is paused.
	pauseDelay time.Duration
	// pause is how long the contender is paused, and lost whether its connections are
	// lost meanwhile.
	pause time.Duration
	lost  bool
	// gaps are the times before each write; the incident comes before the write of
	// that number.
	gaps           []time.Duration
	incidentBefore int
	// again makes the holder write once more after it has given up the lock.
	again bool
}

// newPlan makes a plan for one of n locks.
func newPlan(rng *rand.Rand, n int) plan {
	p := plan{lock: rng.IntN(n), waitTimeout: waitTimeout, incident: incidents[rng.IntN(len(incidents))]}
	p.style = style(p.lock)
	if p.style == lockcheck.Lock && rng.IntN(2) == 0 {
		p.style = lockcheck.TryLock
	}
	if p.incident != pausedWaiting && rng.IntN(5) == 0 {
		p.waitTimeout = pace.Between(rng, shortestWait, longestShortWait)
	}
	p.pauseDelay = pace.Between(rng, 0, longestPauseDelay)
	p.pause, p.lost = pace.Between(rng, shortestPause, longestPause), rng.IntN(2) == 0
	p.gaps = make([]time.Duration, 1+rng.IntN(mostWrites))
	for i := range p.gaps {
		p.gaps[i] = pace.Between(rng, 0, longestGap)
	}
	if p.incident == orphaned { // so that the lease ends among the writes
		p.gaps = append(p.gaps, lifetime/2, lifetime/2, lifetime/2)
	}
	p.incidentBefore = rng.IntN(len(p.gaps))
	p.again = rng.IntN(3) == 0
	return p
}

// style returns how contenders wait for a lock: mutexes and elections alternate.
func style(lock int) lockcheck.Style {
	if lock%2 == 0 {
		return lockcheck.Lock
	}
	return lockcheck.Campaign
}
