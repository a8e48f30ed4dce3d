package locks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

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
