package health_test

import (
	"math"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func TestZeroStampIsNoMoment(t *testing.T) {
	var s health.Stamp
	assert.False(t, s.After(time.Time{}))
	assert.False(t, s.After(t0))
	assert.Equal(t, time.Duration(math.MaxInt64), s.Since(t0))
	assert.Zero(t, s.Time())
}

func TestStampOnlyMovesForward(t *testing.T) {
	now := time.Now()
	var s health.Stamp
	for _, step := range []struct{ set, want time.Duration }{{0, 0}, {time.Second, time.Second}, {-time.Minute, time.Second}, {time.Second, time.Second}} {
		s.Set(now.Add(step.set))
		assert.True(t, s.After(now.Add(step.want-1)))
		assert.True(t, s.After(now.Add(step.want)), "a stamp is after its own moment")
		assert.False(t, s.After(now.Add(step.want+1)))
		assert.Equal(t, 5*time.Second-step.want, s.Since(now.Add(5*time.Second)))
		assert.True(t, s.Time().Equal(now.Add(step.want)))
	}
}

// Programs that replay what was recorded, and the bubbles of synctest, have times from
// before the start of the process and no monotonic reading.
func TestStampOfTimesBeforeTheProcess(t *testing.T) {
	then := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	var s health.Stamp
	s.Set(then)
	assert.True(t, s.After(then))
	assert.False(t, s.After(then.Add(1)))
	assert.Equal(t, time.Minute, s.Since(then.Add(time.Minute)))
	assert.True(t, s.Time().Equal(then))
}

// stepped returns the time that a clock shows at t after it was set, by a whole
// number of seconds: the wall clock's reading is another, the monotonic one is the same.
func stepped(t *testing.T, at time.Time, by time.Duration) time.Time {
	t.Helper()
	after := at
	(*struct{ wall, ext uint64 })(unsafe.Pointer(&after)).wall += uint64(by/time.Second) << 30
	require.Zero(t, after.Sub(at), "the monotonic reading is the same")
	require.Equal(t, by, after.Round(0).Sub(at.Round(0)), "the wall clock's reading is not")
	return after
}

func TestStampIgnoresStepsOfTheWallClock(t *testing.T) {
	now := time.Now()
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		var s health.Stamp
		s.Set(now)
		later := stepped(t, now.Add(time.Second), by)
		assert.Equal(t, time.Second, s.Since(later), "stepped by %v", by)
		assert.False(t, s.After(later))

		s.Set(later)
		assert.Equal(t, time.Second, s.Since(now.Add(2*time.Second)))
		assert.True(t, s.After(stepped(t, now, by)))
		assert.Equal(t, time.Second, s.Time().Sub(now), "the moment has a monotonic reading too")
		assert.Equal(t, time.Second, s.Time().Sub(stepped(t, now, by)))
	}
}

func TestStampOfManyIsTheLatest(t *testing.T) {
	const writers, sets = 4, 1000
	now := time.Now()
	var s health.Stamp
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := range sets {
				// Each writer's times go up and down.
				at := now.Add(time.Duration((n*7919+w)%sets+1) * time.Millisecond)
				s.Set(at)
				if !s.After(at) {
					t.Errorf("the stamp went back behind %v", at)
				}
			}
		})
	}
	wg.Wait()
	assert.True(t, s.Time().Equal(now.Add(sets*time.Millisecond)))
}

func TestStampDoesNotAllocate(t *testing.T) {
	now := time.Now()
	var s health.Stamp
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Millisecond)
		s.Set(now)
		s.After(now)
		s.Since(now)
		_ = s.Time()
	}))
}
