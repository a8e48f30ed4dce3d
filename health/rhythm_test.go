package health_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/health"
)

// stream is a stream in virtual time.
type stream struct {
	health.Rhythm
	now time.Time
	// suspicions counts how often the silence before a message became suspicious. Each
	// time, a probe clears it at once.
	suspicions int
}

func newStream() *stream { return &stream{now: t0} }

// after has a message arrive.
func (s *stream) after(gap time.Duration) {
	s.now = s.now.Add(gap)
	for {
		at := s.SuspectAt()
		if at.IsZero() || at.After(s.now) {
			break
		}
		s.suspicions++
		s.Cleared(at)
	}
	s.Heard(s.now)
}

func (s *stream) every(gap, span time.Duration) {
	for range int(span / gap) {
		s.after(gap)
	}
}

// suspectAfter returns how long after the last message its silence is suspicious, 0 for never.
func (s *stream) suspectAfter() time.Duration {
	if at := s.SuspectAt(); !at.IsZero() {
		return at.Sub(s.now)
	}
	return 0
}

func TestRhythmAtAFixedPace(t *testing.T) {
	tests := []struct {
		gap, want time.Duration
	}{
		{time.Millisecond, 150 * time.Millisecond},
		{75 * time.Millisecond, 150 * time.Millisecond},
		{100 * time.Millisecond, 200 * time.Millisecond},
		{time.Second, 2 * time.Second},
		{1100 * time.Millisecond, 0},
		{time.Minute, 0},
	}
	for _, tt := range tests {
		t.Run(tt.gap.String(), func(t *testing.T) {
			s := newStream()
			s.every(tt.gap, max(30*time.Second, 5*tt.gap))
			assert.Equal(t, tt.want, s.suspectAfter())
			assert.Zero(t, s.suspicions)
		})
	}
}

func TestRhythmNeedsToBeLearnt(t *testing.T) {
	s := newStream()
	assert.Zero(t, s.SuspectAt())
	s.Cleared(s.now)
	s.every(time.Millisecond, 999*time.Millisecond)
	assert.Zero(t, s.suspectAfter(), "one burst is no rhythm")
	s.every(time.Millisecond, 2*time.Millisecond)
	assert.Equal(t, 150*time.Millisecond, s.suspectAfter())
}

// Bursts are what transactions make of watches, and what a mean and a deviation cannot
// describe.
func TestRhythmOfBursts(t *testing.T) {
	for _, pause := range []time.Duration{200 * time.Millisecond, 900 * time.Millisecond, 3 * time.Second, time.Hour} {
		t.Run(pause.String(), func(t *testing.T) {
			s := newStream()
			for range 200 {
				s.after(pause)
				s.every(time.Millisecond, 100*time.Millisecond)
			}
			assert.Zero(t, s.suspicions)
		})
	}
}

func TestRhythmAtRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, mean := range []time.Duration{5 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond} {
		t.Run(mean.String(), func(t *testing.T) {
			const messages = 50_000
			s := newStream()
			for range messages {
				s.after(time.Duration(float64(mean) * r.ExpFloat64()))
			}
			t.Logf("%d suspicions in %v", s.suspicions, s.now.Sub(t0))
			assert.LessOrEqual(t, s.suspicions, messages/5000, "ten an hour at ten messages a second")
		})
	}
}

func TestRhythmFollows(t *testing.T) {
	s := newStream()
	s.every(10*time.Millisecond, 20*time.Second)
	s.every(500*time.Millisecond, 10*time.Second)
	assert.Equal(t, time.Second, s.suspectAfter(), "slower at once")
	assert.LessOrEqual(t, s.suspicions, 2, "and that was noticed")
	s.every(10*time.Millisecond, 21*time.Second)
	assert.Equal(t, 150*time.Millisecond, s.suspectAfter(), "faster when the gaps are forgotten")
}

func TestRhythmCleared(t *testing.T) {
	s := newStream()
	s.every(10*time.Millisecond, 5*time.Second)
	at := s.SuspectAt()
	for _, next := range []time.Duration{300, 600, 1200} {
		s.Cleared(at)
		assert.Equal(t, next*time.Millisecond, s.SuspectAt().Sub(at))
		at = s.SuspectAt()
	}
	for range 100 {
		s.Cleared(at)
		assert.Zero(t, s.SuspectAt(), "it is quiet")
	}
	s.after(10 * time.Millisecond)
	assert.Equal(t, 150*time.Millisecond, s.suspectAfter(), "the next message ends it")
}

// A message that seems to be older than the one before is no gap.
func TestRhythmOutOfOrder(t *testing.T) {
	s := newStream()
	s.every(10*time.Millisecond, 5*time.Second)
	s.Heard(s.now.Add(-time.Second))
	s.Heard(s.now)
	assert.Equal(t, 150*time.Millisecond, s.suspectAfter())
}

func TestRhythmConcurrently(t *testing.T) {
	s := newStream()
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if at := s.SuspectAt(); !at.IsZero() {
					s.Cleared(at)
				}
			}
		}
	})
	for now := t0; now.Sub(t0) < 30*time.Second; now = now.Add(20 * time.Millisecond) {
		s.Heard(now)
	}
	close(stop)
	readers.Wait()
	s.Heard(t0.Add(30 * time.Second))
	assert.False(t, s.SuspectAt().IsZero())
}

func TestRhythmDoesNotAllocate(t *testing.T) {
	s := newStream()
	s.every(10*time.Millisecond, 5*time.Second)
	now := s.now
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Millisecond)
		s.Heard(now)
		s.SuspectAt()
	}))
}

func BenchmarkRhythmHeard(b *testing.B) {
	var r health.Rhythm
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		r.Heard(now)
	}
}
