package health_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/pause"
)

// stream is a stream in virtual time, whose silences are checked when they are due.
type stream struct {
	health.Pace
	start, now    time.Time
	pauses        int
	due           int // pauses in which a check was due
	checks, early int // checks, and those of them in the first ten seconds
}

func newStream() *stream { return &stream{start: t0, now: t0} }

// after lets a message arrive after a pause.
func (s *stream) after(pause time.Duration) {
	s.now = s.now.Add(pause)
	s.pauses++
	checked := false
	for at := s.DueAt(s.start); !at.After(s.now); at = s.DueAt(s.start) {
		checked = true
		s.checks++
		if at.Sub(s.start) < 10*time.Second {
			s.early++
		}
		s.Checked(at)
	}
	if checked {
		s.due++
	}
	s.Observe(s.now)
}

// every lets messages arrive at a fixed pace for a while.
func (s *stream) every(pause, span time.Duration) {
	for range int(span / pause) {
		s.after(pause)
	}
}

// bursts lets n messages arrive each second, one right after the other.
func (s *stream) bursts(n int, gap, span time.Duration) {
	for range int(span / time.Second) {
		s.after(time.Second - time.Duration(n-1)*gap)
		s.every(gap, time.Duration(n-1)*gap)
	}
}

// random lets messages arrive at random, one in mean on average.
func (s *stream) random(mean, span time.Duration, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	for end := s.now.Add(span); s.now.Before(end); {
		s.after(time.Duration(float64(mean) * r.ExpFloat64()))
	}
}

// dueAfter returns how long after the latest message its silence is due for a check.
func (s *stream) dueAfter() time.Duration { return s.DueAt(s.start).Sub(s.now) }

func TestPaceIsFourTimesTheTypicalPause(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name     string
		messages func(s *stream)
		min, max time.Duration // after which silence is due
	}{
		{"50 messages a second", func(s *stream) { s.every(20*ms, time.Minute) }, 250 * ms, 250 * ms},
		{"a message each 100 ms", func(s *stream) { s.every(100*ms, time.Minute) }, 399 * ms, 401 * ms},
		{"a message each second", func(s *stream) { s.every(time.Second, time.Minute) }, 3999 * ms, 4001 * ms},
		{"a message each minute", func(s *stream) { s.every(time.Minute, time.Hour) }, health.MaxPace, health.MaxPace},
		{"one long pause among many short ones", func(s *stream) {
			s.every(20*ms, 10*time.Second)
			s.after(time.Second)
			s.every(20*ms, time.Second)
		}, 250 * ms, 300 * ms},
		{"the message after a long pause", func(s *stream) {
			s.every(20*ms, time.Minute)
			s.after(time.Second)
		}, 250 * ms, 300 * ms},
		{"100 messages each second", func(s *stream) { s.bursts(100, 10*time.Microsecond, time.Minute) }, 2 * time.Second, 4 * time.Second},
		{"100 messages each second, from the first one", func(s *stream) { s.bursts(100, 10*time.Microsecond, 2*time.Second) }, 2 * time.Second, 4 * time.Second},
		{"10 a second, at random", func(s *stream) { s.random(100*ms, time.Minute, 1) }, 400 * ms, 900 * ms},
		{"none", func(*stream) {}, health.MaxPace, health.MaxPace},
		{"one", func(s *stream) { s.after(time.Second) }, health.MaxPace, health.MaxPace},
		{"two", func(s *stream) { s.after(time.Second); s.after(time.Second) }, 4 * time.Second, 4 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStream()
			tt.messages(s)
			assert.GreaterOrEqual(t, s.dueAfter(), tt.min)
			assert.LessOrEqual(t, s.dueAfter(), tt.max)
		})
	}
}

func TestOrdinaryPausesAreNotDue(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name     string
		messages func(s *stream)
	}{
		{"steady", func(s *stream) { s.every(20*ms, 10*time.Minute) }},
		{"slow and steady", func(s *stream) { s.every(2*time.Second, time.Hour) }},
		{"bursts", func(s *stream) { s.bursts(100, 10*time.Microsecond, 10*time.Minute) }},
		{"bursts that take a tenth of the time", func(s *stream) { s.bursts(100, ms, 10*time.Minute) }},
		{"5 ms at random", func(s *stream) { s.random(5*ms, 2*time.Minute, 1) }},
		{"30 ms at random", func(s *stream) { s.random(30*ms, 10*time.Minute, 1) }},
		{"100 ms at random", func(s *stream) { s.random(100*ms, time.Hour, 1) }},
		{"1 s at random", func(s *stream) { s.random(time.Second, 10*time.Hour, 1) }},
		{"two at once, and then 100 ms at random", func(s *stream) {
			s.after(10 * time.Microsecond)
			s.after(10 * time.Microsecond)
			s.random(100*ms, time.Hour, 1)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStream()
			tt.messages(s)
			share := float64(s.due) / float64(s.pauses)
			t.Logf("%d of %d pauses were due (%.2f %%), with %d checks, %d of them in the first ten seconds",
				s.due, s.pauses, 100*share, s.checks, s.early)
			assert.LessOrEqual(t, share, 0.01)
			assert.LessOrEqual(t, s.early, 4, "a young stream is not checked much more often")
		})
	}
}

func TestPaceFollowsTheStream(t *testing.T) {
	s := newStream()
	s.every(20*time.Millisecond, time.Minute)
	s.every(500*time.Millisecond, 15*time.Second)
	assert.Greater(t, s.dueAfter(), time.Second, "slower")
	assert.LessOrEqual(t, s.due, 15, "and no pause is due any more after a while")
	s.every(20*time.Millisecond, 15*time.Second)
	assert.Equal(t, 250*time.Millisecond, s.dueAfter(), "faster")
}

func TestChecksOfOneSilenceAreFartherAndFartherApart(t *testing.T) {
	s := newStream()
	s.every(20*time.Millisecond, time.Minute)
	at := s.DueAt(s.start)
	for _, next := range []time.Duration{500, 1000, 2000, 4000, 8000, 10_000, 10_000} {
		s.Checked(at)
		assert.Equal(t, next*time.Millisecond, s.DueAt(s.start).Sub(at))
		at = s.DueAt(s.start)
	}
	for range 100 {
		s.Checked(at)
		assert.Equal(t, health.MaxPace, s.DueAt(s.start).Sub(at))
	}
	s.Observe(s.now.Add(20 * time.Millisecond))
	s.now = s.now.Add(20 * time.Millisecond)
	assert.Equal(t, 250*time.Millisecond, s.dueAfter(), "a message ends the silence")
}

func TestChecksOfStreamsWithoutAPaceAreTenSecondsApart(t *testing.T) {
	var p health.Pace
	at := p.DueAt(t0)
	assert.Equal(t, 10*time.Second, at.Sub(t0))
	for range 3 {
		p.Checked(at)
		assert.Equal(t, 10*time.Second, p.DueAt(t0).Sub(at))
		at = p.DueAt(t0)
	}
}

// A stream that goes on elsewhere keeps its pace, and is silent since it was opened.
func TestSilenceBeginsWithTheStream(t *testing.T) {
	s := newStream()
	s.every(20*time.Millisecond, time.Minute)
	reopened := s.now.Add(time.Hour)
	assert.Equal(t, 250*time.Millisecond, s.DueAt(reopened).Sub(reopened))
}

func TestSilenceOfAStream(t *testing.T) {
	var p health.Pace
	assert.Equal(t, time.Duration(math.MaxInt64), p.Silence(t0))
	p.Observe(t0)
	assert.Equal(t, time.Second, p.Silence(t0.Add(time.Second)))
}

func TestMessagesOutOfOrderAreNoPause(t *testing.T) {
	s := newStream()
	s.every(100*time.Millisecond, time.Minute)
	before := s.dueAfter()
	s.Observe(s.now.Add(-time.Second))
	s.Observe(s.now)
	assert.Equal(t, before, s.dueAfter())
}

func TestPaceIsReadWhileTheStreamIs(t *testing.T) {
	var p health.Pace
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !pause.Closed(stop) {
				at := p.DueAt(t0)
				if at.Before(t0.Add(250 * time.Millisecond)) {
					t.Errorf("due at %v", at)
				}
				p.Checked(at)
				p.Silence(at)
			}
		})
	}
	now := t0
	for range 20_000 {
		now = now.Add(20 * time.Millisecond)
		p.Observe(now)
	}
	close(stop)
	readers.Wait()
	now = now.Add(time.Hour) // the checks above are of silences that are over
	p.Observe(now)
	assert.Positive(t, p.DueAt(t0).Sub(now))
	assert.LessOrEqual(t, p.DueAt(t0).Sub(now), health.MaxPace)
}

func TestPaceDoesNotAllocate(t *testing.T) {
	s := newStream()
	s.every(10*time.Millisecond, 5*time.Second)
	now := s.now
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Millisecond)
		s.Observe(now)
		s.Checked(s.DueAt(s.start))
		s.Silence(now)
	}))
}
