package locks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

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
	for _, endpoint := range endpoints {
		l := fatal.OK(link.Listen(strings.TrimPrefix(endpoint, "http://")))
		c.env.Cleanup(l.Close)
		c.gate = append(c.gate, l)
	}
	c.client = fatal.OK(c.cfg.connect(c.gate.endpoints()))
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

// endpoints returns the URLs of the contender's side.
func (g gateway) endpoints() []string {
	out := make([]string, len(g))
	for i, l := range g {
		out[i] = "http://" + l.Addr()
	}
	return out
}

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
		h.pause(func() { _ = pause.For(ctx, h.plan.pause) })
	case delayed:
		h.env.Counts.Add("pauses", "with a write on its way", 1)
		h.delay(ctx)
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
		h.pause(func() { _ = pause.For(ctx, h.plan.pause) })
	}
}

// pause pauses the contender while a function runs.
func (h *holding) pause(while func()) {
	h.gate.pause()
	while()
	h.gate.resume(h.plan.lost)
}

// delay pauses the contender with a write on its way.
func (h *holding) delay(ctx context.Context) {
	guard, written := h.handle.Guard(), make(chan struct{})
	h.pause(func() {
		go func() {
			defer close(written)
			h.write(guard, delayedTimeout)
		}()
		_ = pause.For(ctx, h.plan.pause)
	})
	<-written
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
