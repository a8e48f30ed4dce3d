package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/retry"
)

// worked returns endless Retriers with long backoffs, whose latest stream worked and broke.
func worked(t *testing.T, quiet bool) *Retrier {
	t.Helper()
	retrier := rangeRetrier(lazy).Endless()
	retrier.opened = retrier.next(newAttempt(t))
	retrier.Progress()
	retrier.opened.quiet.Store(quiet)
	return retrier
}

// pauseOf returns how long Next waits.
func pauseOf(t *testing.T, retrier *Retrier) time.Duration {
	t.Helper()
	start := time.Now()
	require.NoError(t, retrier.Next(t.Context(), errGone))
	return time.Since(start)
}

func TestStreamThatWorkedIsReopenedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := worked(t, false)
		assert.Zero(t, pauseOf(t, retrier))
		assert.GreaterOrEqual(t, pauseOf(t, retrier), 59*time.Second, "the second failure in a row backs off")
		retrier.Progress()
		assert.Zero(t, pauseOf(t, retrier))
	})
}

func TestQuietStreamsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sum time.Duration
		for range 100 {
			pause := pauseOf(t, worked(t, true))
			assert.Less(t, pause, reopenSpread)
			sum += pause
		}
		assert.InDelta(t, reopenSpread/2, sum/100, float64(reopenSpread/5))
	})
}

func TestCutStreamIsNotSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := worked(t, true)
		retrier.opened.Cut(errGone)
		assert.Zero(t, pauseOf(t, retrier))
	})
}

// A server that ends each stream just after it worked is not asked in a tight loop.
func TestStreamsThatBreakSoonBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := worked(t, false)
		retrier.policy = retry.Policy{}
		start, opened := time.Now(), 0
		for ; opened < 10_000 && time.Since(start) < 10*time.Second; opened++ {
			pauseOf(t, retrier)
			retrier.Progress()
		}
		assert.Less(t, opened, 3000)
	})
}

// A stream without tokens in the budget waits for seconds, not for ever.
func TestStreamsWithoutBudgetBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := worked(t, false)
		for retrier.c.budget.Take() {
		}
		assert.Zero(t, pauseOf(t, retrier), "it worked")
		retrier.lost = true
		pause := pauseOf(t, retrier)
		assert.GreaterOrEqual(t, pause, 3*throttledBackoff/2)
		assert.LessOrEqual(t, pause, 5*throttledBackoff)
	})
}

func TestWakeEndsTheSpread(t *testing.T) {
	for _, when := range []struct {
		name string
		wake func(*Retrier)
	}{
		{"during it", func(retrier *Retrier) { time.AfterFunc(time.Nanosecond, retrier.Wake) }},
		{"before it", (*Retrier).Wake},
	} {
		grpctest.Bubble(t, when.name, func(t *testing.T) {
			for range 20 {
				retrier := worked(t, true)
				when.wake(retrier)
				assert.LessOrEqual(t, pauseOf(t, retrier), time.Nanosecond)
			}
		})
	}
}

// A Wake before the stream worked has no effect on the next one.
func TestWakeIsForgottenWhenAStreamWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var longest time.Duration
		for range 20 {
			retrier := rangeRetrier(lazy).Endless()
			retrier.Wake()
			retrier.opened = retrier.next(newAttempt(t))
			retrier.Progress()
			retrier.opened.quiet.Store(true)
			longest = max(longest, pauseOf(t, retrier))
		}
		assert.Greater(t, longest, reopenSpread/2)
	})
}

func TestWakeEndsNoBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := failing(t)
		time.AfterFunc(time.Second, retrier.Wake)
		assert.GreaterOrEqual(t, pauseOf(t, retrier), 59*time.Second)
	})
}
