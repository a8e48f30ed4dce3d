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
	// early. An endpoint that comes and goes costs each call that waits four attempts
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
	return t.sleep(ctx, delay, improved, cause)
}

// rest is like wait, but lasts for all of the delay.
func (t *Tries) rest(ctx context.Context, delay time.Duration, cause error) error {
	t.improved = nil
	return t.sleep(ctx, delay, nil, cause)
}

func (t *Tries) sleep(ctx context.Context, delay time.Duration, improved <-chan struct{}, cause error) error {
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
