package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/retry"
)

// worked returns endless Tries with long backoffs, whose latest stream worked and broke.
func worked(t *testing.T, quiet bool) *Tries {
	t.Helper()
	tries := rangeTries(lazy).Endless()
	tries.opened = tries.next(newAttempt(t))
	tries.Progress()
	tries.opened.idle.Store(quiet)
	return tries
}

// pauseOf returns how long Next waits.
func pauseOf(t *testing.T, tries *Tries) time.Duration {
	t.Helper()
	start := time.Now()
	require.NoError(t, tries.Next(t.Context(), errGone))
	return time.Since(start)
}

func TestStreamThatWorkedIsReopenedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := worked(t, false)
		assert.Zero(t, pauseOf(t, tries))
		assert.GreaterOrEqual(t, pauseOf(t, tries), 59*time.Second, "the second failure in a row backs off")
		tries.Progress()
		assert.Zero(t, pauseOf(t, tries))
	})
}

func TestQuietStreamsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sum time.Duration
		for range 100 {
			pause := pauseOf(t, worked(t, true))
			assert.Less(t, pause, idleSpread)
			sum += pause
		}
		assert.InDelta(t, idleSpread/2, sum/100, float64(idleSpread/5))
	})
}

func TestCutStreamIsNotSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := worked(t, true)
		tries.opened.Cut(errGone)
		assert.Zero(t, pauseOf(t, tries))
	})
}

// A server that ends each stream just after it worked is not asked in a tight loop.
func TestStreamsThatBreakSoonBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := worked(t, false)
		tries.policy = retry.Policy{}
		start, opened := time.Now(), 0
		for ; opened < 10_000 && time.Since(start) < 10*time.Second; opened++ {
			pauseOf(t, tries)
			tries.Progress()
		}
		assert.Less(t, opened, 3000)
	})
}

func TestThrottledStreamsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := worked(t, false)
		tries.width = func() int { return 1 }
		for range 100 {
			tries.budget.Failure()
		}
		assert.Greater(t, pauseOf(t, tries), 29*time.Second)
	})
}

func TestWakeEndsTheSpread(t *testing.T) {
	for _, when := range []struct {
		name string
		wake func(*Tries)
	}{
		{"during it", func(tries *Tries) { time.AfterFunc(time.Nanosecond, tries.Wake) }},
		{"before it", (*Tries).Wake},
	} {
		t.Run(when.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for range 20 {
					tries := worked(t, true)
					when.wake(tries)
					assert.LessOrEqual(t, pauseOf(t, tries), time.Nanosecond)
				}
			})
		})
	}
}

// Whoever waited for a stream that worked meanwhile does not hurry the next one.
func TestWakeIsForgottenWhenAStreamWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var longest time.Duration
		for range 20 {
			tries := rangeTries(lazy).Endless()
			tries.Wake()
			tries.opened = tries.next(newAttempt(t))
			tries.Progress()
			tries.opened.idle.Store(true)
			longest = max(longest, pauseOf(t, tries))
		}
		assert.Greater(t, longest, idleSpread/2)
	})
}

func TestWakeEndsNoBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := failing(t)
		time.AfterFunc(time.Second, tries.Wake)
		assert.GreaterOrEqual(t, pauseOf(t, tries), 59*time.Second)
	})
}
