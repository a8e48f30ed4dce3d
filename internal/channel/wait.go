package channel

import (
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/status"
)

const (
	// wakeSpread is how far the calls that wait for an endpoint are spread when one
	// improves, so that it is not met by all of them at the same instant.
	wakeSpread = 50 * time.Millisecond

	// wakeSpacing is the least time between two pauses of the same work that end
	// early or are left out. An endpoint that comes and goes costs each call that waits four attempts
	// a second at most; and with the spread, a call goes on within 0.3 s of the
	// improvement that it waits for.
	wakeSpacing = 250 * time.Millisecond
)

// wait returns nil after the delay, or earlier if an endpoint can do what it could
// not before, and otherwise the reason why there will be no other attempt.
func (t *Tries) wait(ctx context.Context, delay time.Duration, cause error) error {
	improved := t.improved
	t.improved = nil
	if improved == nil {
		improved = t.table.Improved()
	}
	return t.sleep(ctx, delay, improved, nil, cause)
}

// idleSpread is the time over which quiet streams are opened again: when a member
// dies, all of its clients lose theirs in the same instant.
const idleSpread = 100 * time.Millisecond

// Wake ends the spread before a quiet stream is opened again: somebody waits for the
// stream. It ends no backoff, which protects servers that fail repeatedly, however many
// callers wait. A Wake between the end of a stream and Next is not lost; one before the
// latest Progress has no effect. Any goroutine may call it.
func (t *Tries) Wake() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// reopensAtOnce reports whether there is no backoff after a failure at the given time:
// if it is the first since the stream last worked. Streams that break again and again
// just after they work, and those that have exhausted the budget, back off.
func (t *Tries) reopensAtOnce(now time.Time) bool {
	throttled := t.exhausted() && t.budget.Throttled()
	return t.endless && t.failures == 1 && !throttled && now.Sub(t.woken) >= wakeSpacing
}

// reopen returns nil when it is time to replace a stream that broke: at once, or within
// the spread if the stream was quiet. A stream that the balancer cut is not spread, since
// each client finds the fault at a time of its own.
func (t *Tries) reopen(ctx context.Context, a *attempt, cause error) error {
	t.woken = time.Now()
	var spread time.Duration
	if a != nil && a.idle.Load() && a.cutReason() == nil {
		spread = rand.N(idleSpread)
	}
	return t.sleep(ctx, spread, nil, t.wake, cause)
}

// sleep returns nil after the delay, soon after an improvement, or with a wake.
func (t *Tries) sleep(ctx context.Context, delay time.Duration, improved, wake <-chan struct{}, cause error) error {
	if log := t.log().Check(zap.DebugLevel, "trying again"); log != nil {
		log.Write(zap.String("method", t.method), zap.Int("failures", t.failures), zap.Duration("after", delay), zap.Error(cause))
	}
	due := time.Now().Add(delay)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case <-wake:
			return nil
		case <-improved:
			improved = nil
			t.wakeBefore(due, timer)
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-t.closed:
			return ErrClosed
		}
	}
}

// wakeBefore has a pause end as early as it may.
func (t *Tries) wakeBefore(due time.Time, timer *time.Timer) {
	early := time.Now()
	if next := t.woken.Add(wakeSpacing); next.After(early) {
		early = next
	}
	if wake := early.Add(rand.N(wakeSpread)); wake.Before(due) {
		t.woken = early
		timer.Reset(time.Until(wake))
	}
}
