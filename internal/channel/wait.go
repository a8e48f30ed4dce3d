package channel

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

const (
	// wakeSpread is the time over which waiting calls resume when an endpoint improves,
	// so that they do not all reach it at once.
	wakeSpread = 50 * time.Millisecond

	// wakeSpacing is the minimum time between two pauses of the same work that end early or
	// are skipped. A flapping endpoint causes at most four attempts per second for each
	// waiting call; with the spread, a call resumes within 0.3 s of the improvement.
	wakeSpacing = 250 * time.Millisecond

	// reopenSpread is the time over which quiet streams are reopened: when a member dies,
	// all of its clients lose their streams at once.
	reopenSpread = 100 * time.Millisecond

	// idlePause bounds the pause of endless work after eagerFailures attempts that were not sent, while no endpoint is
	// connected. A new connection ends the pause.
	idlePause     = 4 * time.Second
	eagerFailures = 3

	// shortStream is the age below which a stream that worked counts as short when it ends. After eagerFailures short
	// streams in a row, the pauses before the next ones grow.
	shortStream = time.Second

	// throttledBackoff is about how long work waits before it checks the retry budget again;
	// it doubles up to four times this value. Endless work that was refused for want of a leader makes an
	// attempt at the second check even if the budget is empty: an election shows as an improvement.
	throttledBackoff = 4 * time.Second
	freeCheck        = 2

	// minThrottled and maxThrottled bound the mean wait of other endless work before an attempt while the budget is
	// empty. The mean is the time for which the work has failed: after a short fault the wait is short. A wait is 0.5 to
	// 1.5 times the mean.
	minThrottled = 500 * time.Millisecond
	maxThrottled = 12 * time.Second

	// longFailure is how long endless work fails before the log has a warning: elections and restarts take less.
	longFailure = 5 * time.Second
)

// Wake ends the spread before a quiet stream is reopened, because a caller waits for the
// stream. It does not end a backoff, which protects failing servers regardless of the number
// of callers. A Wake between the end of a stream and Next is not lost; one before the latest
// Progress has no effect. Any goroutine may call it.
func (r *Retrier) Wake() { pause.Signal(r.wake) }

// pause waits before another attempt, with a growing backoff, and returns nil. It returns
// the cause at once if no attempts remain or the next one would be too late.
func (r *Retrier) pause(ctx context.Context, class retry.Class, a *attempt, cause error) error {
	now := time.Now()
	switch {
	case now.Sub(r.began) >= shortStream:
		r.short = 0
	case r.progressed:
		r.short++
	}
	free := r.useFree(class, a, cause)
	r.fail(a.endpoint(), cause, now)
	// The log has lines of its own for an outage, in which nothing is sent.
	if r.endless && !r.warned && class != retry.NotSent && now.Sub(r.since) >= longFailure {
		r.warned = true
		r.c.log().Warn("stream keeps failing; trying again",
			zap.String("method", r.method), zap.String("endpoint", r.c.name(a.endpoint())), zap.Error(cause))
	}
	if r.policy.MaxAttempts > 0 && r.failures >= r.policy.MaxAttempts && !r.endless {
		return cause
	}
	delay, left := r.policy.Delay(max(r.failures, r.short-eagerFailures)), r.left(ctx, now)
	if r.endless && class == retry.NotSent && r.failures > eagerFailures && !slices.ContainsFunc(r.c.monitor.Endpoints(), (*balancer.Endpoint).Ready) {
		delay = idlePause/4 + rand.N(idlePause*3/4)
	}
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

// useFree reports whether another attempt takes nothing from the budget: this one was not sent; its login was wrong, which
// has its own backoff; or it is a stream that made progress. Once until the next Progress it is free too if the
// connection was lost, the attempt was cut, or a proxy failed it; useFree records that. When a member dies, each
// in-flight call fails once and moves to another endpoint; that is no overload.
func (r *Retrier) useFree(class retry.Class, a *attempt, cause error) bool {
	progressed, lost := r.progressed, r.lost
	r.progressed = false
	switch {
	case class == retry.NotSent, a.keptSecret(), isWrongLogin(cause), class == retry.Ambiguous && progressed:
		return true
	case class != retry.Ambiguous || lost || a == nil || a.Answered() && isFromEtcd(cause):
		return false
	}
	r.lost = true
	return true
}

// waitForBudget returns nil when the budget has a token, or an endpoint has improved,
// which makes success likely. Endless work also goes on without a token, see freeCheck and maxThrottled.
func (r *Retrier) waitForBudget(ctx context.Context, class retry.Class, a *attempt, cause error) error {
	grows := r.endless && class != retry.NoLeader
	for check := 1; ; check++ {
		backoff, left := throttledBackoff<<min(check-1, 2), r.left(ctx, time.Now())
		if grows {
			backoff = min(max(time.Since(r.since), minThrottled), maxThrottled)
		}
		if left <= wakeSpacing {
			return cause
		}
		improved, err := r.wait(ctx, min(backoff/2+rand.N(backoff), left-min(left, throttledBackoff)/4), cause)
		if err != nil {
			return err
		}
		if improved || r.c.budget.Take() || grows || r.endless && check >= freeCheck {
			r.retried(class, a, cause)
			return nil
		}
	}
}

// reopensAtOnce reports whether a failure at the given time needs no backoff: it is the
// first since the stream last worked. Streams that break repeatedly just after they work do
// back off, and so do those that break soon, one after the other.
func (r *Retrier) reopensAtOnce(now time.Time) bool {
	return r.endless && r.failures == 1 && r.short <= eagerFailures && now.Sub(r.woken) >= wakeSpacing
}

// reopen returns nil when it is time to replace a broken stream: at once, or within the
// spread if the stream was quiet. Streams cut by the balancer are not spread, because
// clients detect the fault at different times.
func (r *Retrier) reopen(ctx context.Context, a *attempt, cause error) error {
	r.woken = time.Now()
	var spread time.Duration
	if a != nil && a.marks.Load()&markQuiet != 0 && a.cutReason() == nil {
		spread = rand.N(reopenSpread)
	}
	_, err := r.sleep(ctx, spread, nil, r.wake, cause)
	return err
}

// wait returns after the delay, or soon after an endpoint improves; improved reports whether one
// did. An error means that there is no further attempt.
func (r *Retrier) wait(ctx context.Context, delay time.Duration, cause error) (improved bool, err error) {
	ch := r.improved
	r.improved = nil
	if ch == nil {
		ch = r.c.monitor.Improved()
	}
	return r.sleep(ctx, delay, ch, nil, cause)
}

// sleep waits for the delay. It returns early if wake has a value, or, as far as wakeSpacing allows, once improved is
// closed; hasImproved reports the latter.
func (r *Retrier) sleep(ctx context.Context, delay time.Duration, improved, wake <-chan struct{}, cause error) (hasImproved bool, err error) {
	if log := r.c.log().Check(zap.DebugLevel, "trying again"); log != nil {
		log.Write(zap.String("method", r.method), zap.Int("failures", r.failures), zap.Duration("after", delay), zap.Error(cause))
	}
	due := time.Now().Add(delay)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return hasImproved, nil
		case <-wake:
			return false, nil
		case <-improved:
			improved, hasImproved = nil, true
			r.wakeBefore(due, timer)
		case <-ctx.Done():
			return false, status.FromContextError(ctx.Err()).Err()
		case <-r.c.closed:
			return false, ErrClosed
		}
	}
}

// wakeBefore shortens the timer of a pause as far as wakeSpacing allows.
func (r *Retrier) wakeBefore(due time.Time, timer *time.Timer) {
	early := time.Now()
	if next := r.woken.Add(wakeSpacing); next.After(early) {
		early = next
	}
	wake := early.Add(rand.N(wakeSpread))
	if wake.Before(due) {
		r.woken = early
		timer.Reset(time.Until(wake))
	}
}
