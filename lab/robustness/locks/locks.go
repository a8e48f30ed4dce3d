// Package locks is the workload of package robustness that lets many programs contend for few locks, and checks that no lock was held
// by two.
//
// Each contender has a client of its own, a session with a short lease, and its own
// link to every member. Round after round a contender takes a mutex or an election,
// by Lock, TryLock or Campaign, writes to the lock's register in txns that are
// guarded by the lock, and gives it up: by Unlock or Resign, by closing the session,
// or by leaving the session to expire. Some
// contenders are paused past their lease, as programs are whose host sleeps: while
// they wait, while they hold the lock, or with a guarded write on its way; then they
// go on as if nothing had happened.
//
// When the faults are over every contender takes a lock once more; then [lockcheck.Check] compares what they learned with the
// record.
package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// roundTimeout bounds the time from the end of the faults until all rounds have
// ended: a session, a lock, all writes and the end of the session, each in the time
// it may take.
const roundTimeout = time.Minute

// late is the error of a run whose calls outlast roundTimeout.
const late = "calls of contenders do not return, long after the last of their contexts should have ended"

// Config describes a run. Fields that are zero have their default.
type Config struct {
	robustness.Config
	// contenders is how many programs contend for the locks. Each has a client of its own and a link of its own to every member.
	// Default 16.
	contenders int
	// locks is how many there are to contend for, mutexes and elections by turns. Default 6.
	locks int
	// connect connects one contender. Default [quorate.Locker].
	connect func(endpoints []string) (client.Locker, error)
	// settleTimeout is how long every contender may take to take a lock once more
	// at the end, when all members and links are healthy. Half a second is usual,
	// and a few seconds if the lease of an abandoned session must expire first. A
	// contender without a lock by then counts as stuck. Default 45 s.
	settleTimeout time.Duration
}

const defaultContenders, defaultLocks = 16, 6

// Run takes the history of a run and checks it, see [robustness.Run].
func (c Config) Run(ctx context.Context) (robustness.Outcome, error) {
	c.contenders = cmp.Or(c.contenders, defaultContenders)
	c.locks = cmp.Or(c.locks, defaultLocks)
	c.settleTimeout = cmp.Or(c.settleTimeout, 45*time.Second)
	if c.connect == nil {
		c.connect = quorate.Locker
	}
	return robustness.Run(ctx, c.Config, lab.Config{}, c.workload)
}

// workload connects the contenders and lets them contend until the faults are over, and once more after that. Then it checks what
// they learned.
func (c Config) workload(ctx context.Context, env *robustness.Env) {
	var seen lockcheck.History
	for i := range c.locks {
		seen.Locks = append(seen.Locks, lockcheck.LockKeys{Prefix: fmt.Sprintf("/locks/%v-%d/", style(i), i), Register: fmt.Sprintf("/registers/%d", i)})
	}
	contenders := make([]*contender, c.contenders)
	for i := range contenders {
		contenders[i] = &contender{index: i, cfg: c, env: env, locks: seen.Locks, rng: env.Rand(uint64(i))}
		contenders[i].connect(env.Cluster.Endpoints())
	}
	rounds := robustness.Go(c.contenders, func(i int) { contenders[i].contend(ctx) })
	err := env.InjectFaults(ctx)
	fatal.If(errors.Join(err, robustness.Await(rounds, roundTimeout, late)))
	seen.Calm = env.Now()
	settling, cancel := context.WithTimeout(context.Background(), c.settleTimeout)
	defer cancel()
	again := robustness.Go(c.contenders, func(i int) { contenders[i].once(settling) })
	fatal.If(errors.Join(robustness.Await(again, c.settleTimeout+roundTimeout, late), env.Close()))
	seen.Through, seen.Events = env.Recorded()
	for _, contender := range contenders {
		seen.Attempts = append(seen.Attempts, contender.attempts)
	}
	env.Counts.Add("store", "revisions", int(seen.Through))
	env.Verdict = fatal.OK(lockcheck.Check(seen))
}

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
