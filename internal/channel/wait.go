package channel

import (
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/retry"
)

const (
	// wakeSpread is how far the calls that wait for an endpoint are spread when one
	// improves, so that it is not met by all of them at the same instant.
	wakeSpread = 50 * time.Millisecond

	// wakeSpacing is the least time between two pauses of the same work that end early or
	// are left out. An endpoint that comes and goes costs each call that waits four attempts
	// a second at most; and with the spread, a call goes on within 0.3 s of the improvement
	// that it waits for.
	wakeSpacing = 250 * time.Millisecond

	// reopenSpread is the time over which quiet streams are opened again: when a member
	// dies, all of its clients lose theirs in the same instant.
	reopenSpread = 100 * time.Millisecond

	// throttledBackoff is about how long work waits before it looks again whether the budget
	// pays for an attempt; twice as long each time, up to four times. Endless work makes an
	// attempt at the second look even if the budget does not pay.
	throttledBackoff = 4 * time.Second
	freeLook         = 2
)

// Wake ends the spread before a quiet stream is opened again: somebody waits for the stream.
// It ends no backoff, which protects servers that fail repeatedly, however many callers
// wait. A Wake between the end of a stream and Next is not lost; one before the latest
// Progress has no effect. Any goroutine may call it.
func (r *Retrier) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// pause waits before another attempt, longer after each, and returns nil. It returns the
// cause at once where there may be no more attempts, or the next one would come too late.
func (r *Retrier) pause(ctx context.Context, class retry.Class, a *attempt, cause error) error {
	now := time.Now()
	free := r.isFree(class, a, cause)
	r.fail(a.endpoint(), cause, now)
	if r.policy.MaxAttempts > 0 && r.failures >= r.policy.MaxAttempts && !r.endless {
		return cause
	}
	delay, left := r.policy.Delay(r.failures), r.left(ctx, now)
	switch {
	case delay >= left:
		return cause
	case r.reopensAtOnce(now):
		r.retried(class, a, cause)
		return r.reopen(ctx, a, cause)
	case !free && !r.c.budget.Take():
		return r.waitForBudget(ctx, class, a, cause)
	}
	r.retried(class, a, cause)
	_, err := r.wait(ctx, delay, cause)
	return err
}

// isFree reports whether another attempt costs nothing of the budget: if this one never
// left; if it is a stream that made progress; and once if it was lost with its connection,
// or cut, or failed by a proxy. Each call in flight fails once when a member dies, and goes
// elsewhere; that is no overload.
func (r *Retrier) isFree(class retry.Class, a *attempt, cause error) bool {
	progressed, lost := r.progressed, r.lost
	r.progressed = false
	switch {
	case class == retry.NotSent, class == retry.Ambiguous && progressed:
		return true
	case class != retry.Ambiguous || lost || a == nil || a.Answered() && isEtcds(cause):
		return false
	}
	r.lost = true
	return true
}

// waitForBudget returns nil when the budget pays for another attempt, or an endpoint has
// improved, which makes success likely.
func (r *Retrier) waitForBudget(ctx context.Context, class retry.Class, a *attempt, cause error) error {
	for look := 1; ; look++ {
		backoff := throttledBackoff << min(look-1, 2)
		left := r.left(ctx, time.Now())
		if left <= throttledBackoff/2 {
			return cause
		}
		improved, err := r.wait(ctx, min(backoff/2+rand.N(backoff), left-throttledBackoff/4), cause)
		if err != nil {
			return err
		}
		if improved || r.c.budget.Take() || r.endless && look >= freeLook {
			r.retried(class, a, cause)
			return nil
		}
	}
}

// reopensAtOnce reports whether there is no backoff after a failure at the given time: if it
// is the first since the stream last worked. Streams that break again and again just after
// they work back off.
func (r *Retrier) reopensAtOnce(now time.Time) bool {
	return r.endless && r.failures == 1 && now.Sub(r.woken) >= wakeSpacing
}

// reopen returns nil when it is time to replace a stream that broke: at once, or within the
// spread if the stream was quiet. A stream that the balancer cut is not spread, since each
// client finds the fault at a time of its own.
func (r *Retrier) reopen(ctx context.Context, a *attempt, cause error) error {
	r.woken = time.Now()
	var spread time.Duration
	if a != nil && a.quiet.Load() && a.cutReason() == nil {
		spread = rand.N(reopenSpread)
	}
	_, err := r.sleep(ctx, spread, nil, r.wake, cause)
	return err
}

// wait returns after the delay, or soon after an endpoint can do what it could not before,
// and reports whether that was the reason. An error says why there will be no other attempt.
func (r *Retrier) wait(ctx context.Context, delay time.Duration, cause error) (improved bool, err error) {
	ch := r.improved
	r.improved = nil
	if ch == nil {
		ch = r.c.monitor.Improved()
	}
	return r.sleep(ctx, delay, ch, nil, cause)
}

func (r *Retrier) sleep(ctx context.Context, delay time.Duration, improved, wake <-chan struct{}, cause error) (bool, error) {
	if log := r.c.log().Check(zap.DebugLevel, "trying again"); log != nil {
		log.Write(zap.String("method", r.method), zap.Int("failures", r.failures), zap.Duration("after", delay), zap.Error(cause))
	}
	due := time.Now().Add(delay)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	early := false
	for {
		select {
		case <-timer.C:
			return early, nil
		case <-wake:
			return false, nil
		case <-improved:
			improved = nil
			early = r.wakeBefore(due, timer)
		case <-ctx.Done():
			return false, status.FromContextError(ctx.Err()).Err()
		case <-r.c.closed:
			return false, ErrClosed
		}
	}
}

// wakeBefore has a pause end as early as it may, and reports whether that is early.
func (r *Retrier) wakeBefore(due time.Time, timer *time.Timer) bool {
	early := time.Now()
	if next := r.woken.Add(wakeSpacing); next.After(early) {
		early = next
	}
	wake := early.Add(rand.N(wakeSpread))
	if !wake.Before(due) {
		return false
	}
	r.woken = early
	timer.Reset(time.Until(wake))
	return true
}
