// Package locks is the workload of package robustness that lets many programs contend for few locks, and checks that no lock was held
// by two.
//
// Each contender has a client of its own, a session with a short lease, and its own
// link to every member. Round after round a contender takes a mutex or an election,
// by Lock, TryLock or Campaign, writes to the lock's register in txns that are
// guarded by the lock, and gives it up: by Unlock or Resign, by closing the session,
// or by leaving the session to expire. Some contenders are paused past their lease, as
// programs are whose host sleeps: while they wait, while they hold the lock, or with a
// guarded write on its way; then they go on as if nothing had happened.
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
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/link"
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
	// locks is how many there are to contend for, mutexes and elections in turn. Default 6.
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

const (
	// callTimeout bounds a call of a holder, so that a fault does not keep the lock
	// for ever, and sessionTimeout the grant of a lease.
	callTimeout, sessionTimeout = 3 * time.Second, 5 * time.Second
	// delayedTimeout bounds a write that is on its way during a pause: it outlasts
	// the pause.
	delayedTimeout = longestPause + callTimeout
	// longestBreak bounds the time between two rounds.
	longestBreak = 100 * time.Millisecond
)

// contender is one program that takes locks, round after round.
type contender struct {
	index    int
	cfg      Config
	env      *robustness.Env
	locks    []lockcheck.LockKeys
	rng      *rand.Rand
	gate     gateway
	client   client.Locker
	session  client.Session // nil if there is none
	end      context.CancelFunc
	values   int
	attempts []*lockcheck.Attempt
}

// connect opens the contender's way to the members and connects its client. An error ends it, see package fatal.
func (c *contender) connect(endpoints []string) {
	for i, endpoint := range endpoints {
		l := fatal.OK(link.Listen(strings.TrimPrefix(endpoint, "http://")))
		c.env.Cleanup(l.Close)
		c.gate = append(c.gate, l)
		endpoints[i] = "http://" + l.Addr()
	}
	c.client = fatal.OK(c.cfg.connect(endpoints))
	c.env.Cleanup(func() error {
		c.drop()
		return c.client.Close()
	})
}

// contend takes locks until ctx ends. A lock that is held then is given up as planned.
func (c *contender) contend(ctx context.Context) {
	for pause.For(ctx, pace.Between(c.rng, 0, longestBreak)) == nil {
		if c.ensureSession() {
			c.round(ctx, newPlan(c.rng, len(c.locks)))
		}
	}
}

// once tries to take a lock one last time, until it succeeds or ctx ends. It ends
// the session in any case; a lease that is not revoked expires.
func (c *contender) once(ctx context.Context) {
	lock := c.index % len(c.locks)
	p := plan{lock: lock, style: style(lock), waitTimeout: c.cfg.settleTimeout, gaps: make([]time.Duration, 1)}
	for taken := false; !taken && pause.For(ctx, pace.Between(c.rng, 0, longestBreak)) == nil; {
		if c.ensureSession() {
			taken = c.round(ctx, p)
			_ = c.session.Close()
		}
	}
}

// ensureSession makes a session unless there is one that lives as far as the client
// knows.
func (c *contender) ensureSession() bool {
	if c.session != nil && !pause.Closed(c.session.Done()) {
		return true
	}
	c.drop()
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(sessionTimeout, cancel)
	s, err := c.client.Session(ctx, sessionTTL)
	inTime := timer.Stop()
	if err != nil || !inTime {
		cancel()
		c.env.Counts.Add("sessions", "not granted", 1)
		return false
	}
	c.session, c.end = s, cancel
	c.env.Counts.Add("sessions", "granted", 1)
	return true
}

// drop forgets the session, if there is one, and ends what may be left of it.
func (c *contender) drop() {
	if c.session != nil {
		c.end()
		c.session, c.end = nil, nil
	}
}

// round carries out a plan, and reports whether the lock was taken.
func (c *contender) round(ctx context.Context, p plan) (ok bool) {
	h := &holding{contender: c, plan: p}
	var background sync.WaitGroup
	defer background.Wait()
	waiting, taken := context.WithCancel(ctx)
	if p.incident == pausedWaiting {
		background.Go(func() { h.pauseWaiting(ctx, waiting) })
	}
	ok = h.take(ctx)
	taken()
	if ok {
		h.hold(ctx)
		h.giveUp()
	}
	return ok
}

// gateway is a contender's own way to the members: a link to each of them. While it
// is paused the contender is like a program that is stopped, or whose host sleeps:
// no renewal leaves it, no event reaches it, and it does not notice.
type gateway []*link.Link

// pause withholds everything from now on.
func (g gateway) pause() {
	for _, l := range g {
		l.Blackhole(link.Both)
	}
}

// resume delivers what was withheld or, if the connections are lost, drops it with
// them, and carries again.
func (g gateway) resume(lost bool) {
	for _, l := range g {
		if lost {
			l.Cut()
		}
		l.Heal()
	}
}

// holding is one use of a lock by a contender, from the call that asks for it to
// the last write that is guarded by it.
type holding struct {
	*contender
	plan    plan
	handle  client.Handle
	attempt *lockcheck.Attempt
}

// take tries to acquire the lock until ctx ends or the plan's waitTimeout has passed, and
// reports whether it did.
func (h *holding) take(ctx context.Context) bool {
	h.handle = h.session.Handle(h.plan.style, strings.TrimSuffix(h.locks[h.plan.lock].Prefix, "/"))
	a := &lockcheck.Attempt{
		Contender: h.index, Lock: h.plan.lock, Style: h.plan.style, Session: h.session.Lease(), Called: h.env.Now(), Answer: lockcheck.Failed,
	}
	ctx, cancel := context.WithTimeout(ctx, h.plan.waitTimeout)
	defer cancel()
	a.Err = h.handle.Acquire(ctx)
	a.Returned = h.env.Now()
	switch {
	case a.Err == nil:
		a.Answer, a.Claim = lockcheck.Taken, h.handle.Guard().Claim
	case errors.Is(a.Err, client.ErrLocked):
		a.Answer = lockcheck.Locked
	}
	h.attempt, h.attempts = a, append(h.attempts, a)
	h.env.Counts.Add(string(a.Style), string(a.Answer), 1)
	return a.Answer == lockcheck.Taken
}

// hold writes under the lock, and applies the incident of the plan. The holder does
// not check that its session is alive: the guard does.
func (h *holding) hold(ctx context.Context) {
	for n, gap := range h.plan.gaps {
		_ = pause.For(ctx, gap) // writes come faster when the run ends
		if n == h.plan.incidentBefore {
			h.applyIncident(ctx)
		}
		h.write(h.handle.Guard(), callTimeout)
	}
}

// applyIncident causes the incident of the plan.
func (h *holding) applyIncident(ctx context.Context) {
	switch h.plan.incident {
	case pausedHolding:
		h.env.Counts.Add("pauses", "while holding", 1)
		h.pause(ctx, func() {})
	case delayed:
		h.env.Counts.Add("pauses", "with a write on its way", 1)
		guard := h.handle.Guard()
		h.pause(ctx, func() { h.write(guard, delayedTimeout) })
	case orphaned:
		h.env.Counts.Add("sessions", "orphaned under a lock", 1)
		h.session.Orphan()
	case closed:
		h.env.Counts.Add("sessions", "closed under a lock", 1)
		h.closeSession()
	default:
	}
}

// pauseWaiting pauses the contender some time after it has begun to wait, unless it
// has the lock by then.
func (h *holding) pauseWaiting(ctx, waiting context.Context) {
	if pause.For(waiting, h.plan.pauseDelay) == nil {
		h.env.Counts.Add("pauses", "while waiting", 1)
		h.pause(ctx, func() {})
	}
}

// pause pauses the contender as planned, with something on its way, and waits for that afterwards.
func (h *holding) pause(ctx context.Context, send func()) {
	var sending sync.WaitGroup
	h.gate.pause()
	sending.Go(send)
	_ = pause.For(ctx, h.plan.pause)
	h.gate.resume(h.plan.lost)
	sending.Wait()
}

// write makes a guarded write.
func (h *holding) write(guard client.Guard, timeout time.Duration) {
	h.values++
	w := lockcheck.Write{Value: fmt.Sprintf("%d-%d", h.index, h.values), Sent: h.env.Now(), Outcome: lockcheck.Unknown}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	accepted, revision, err := guard.Write(ctx, h.locks[h.plan.lock].Register, w.Value)
	w.Answered = h.env.Now()
	if err == nil {
		w.Revision, w.Outcome = revision, lockcheck.Refused
		if accepted {
			w.Outcome = lockcheck.Accepted
		}
	}
	h.attempt.Writes = append(h.attempt.Writes, w)
	h.env.Counts.Add("writes", string(w.Outcome), 1)
}

// giveUp releases the lock, unless its session is gone already. If the release fails it closes the session, so that the key
// keeps no contender waiting.
func (h *holding) giveUp() {
	if h.plan.incident == orphaned || h.plan.incident == closed {
		return
	}
	guard := h.handle.Guard()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if h.handle.Release(ctx) != nil {
		h.closeSession()
		return
	}
	h.attempt.Ending, h.attempt.Ended = lockcheck.Unlocked, h.env.Now()
	if h.plan.again {
		h.write(guard, callTimeout)
	}
}

// closeSession closes the session under the lock that was taken with it.
func (h *holding) closeSession() {
	if h.session.Close() == nil {
		h.attempt.Ending, h.attempt.Ended = lockcheck.Closed, h.env.Now()
	}
}
