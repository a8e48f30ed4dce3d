package health

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// paceWindow is the time constant with which old pauses are forgotten. A pause of a
	// second among steady messages doubles the threshold at most.
	paceWindow = 5 * time.Second
	// paceFactor is how many times the typical pause a silence must last. Of messages at
	// random, one pause in 400 is that long.
	paceFactor = 4
	// minPace is longer than the pauses of a busy process or host.
	minPace = 250 * time.Millisecond
	// MaxPace is the silence after which every stream is due for a check, whatever its pace:
	// as long as gRPC's keepalive waits at least.
	MaxPace = 10 * time.Second
)

// Pace learns how long a stream usually pauses between two messages. The zero value has
// learnt nothing and is ready for use.
//
// Pauses are weighted by their length, and averaged by their logarithm: the average is that
// of the pause which a random moment falls into. A stream that sends a burst each second has
// a pace of about a second, however many messages a burst has; a stream that sends 50
// messages a second, and paused once for a second, keeps a pace of some 30 ms.
//
// Heard is called by one goroutine at a time, the reader of the stream; the other methods
// may be called from any. None locks or allocates.
type Pace struct {
	last      Stamp
	logGap    atomic.Uint64 // the average, as bits of a float64: log2 of nanoseconds
	weight    float64       // of the pauses in the average, up to 1; Heard's alone
	checks    atomic.Int64  // of the present silence
	checkedAt Stamp
}

// Observe notes a message.
func (p *Pace) Observe(at time.Time) {
	gap := p.last.Since(at)
	p.last.Set(at)
	if p.checks.Load() != 0 {
		p.checks.Store(0)
	}
	if gap <= 0 || gap == math.MaxInt64 {
		return
	}
	// Of a young stream the average is that of the pauses so far, so that two messages in
	// quick succession at its start set no pace for long.
	weight := -math.Expm1(-float64(gap) / float64(paceWindow))
	p.weight += weight * (1 - p.weight)
	average := math.Float64frombits(p.logGap.Load())
	average += weight / p.weight * (math.Log2(float64(gap)) - average)
	p.logGap.Store(math.Float64bits(average))
}

// Checked notes that the present silence was checked. The pause before the next check of it
// is twice as long, up to 10 s.
func (p *Pace) Checked(at time.Time) {
	p.checks.Add(1)
	p.checkedAt.Set(at)
}

// DueAt returns when the present silence is to be checked: four times the typical pause
// after the latest message, but after 250 ms at least and 10 s at most. A stream that was
// opened at start and has sent fewer than two messages has no pace, and is due after 10 s.
func (p *Pace) DueAt(start time.Time) time.Time {
	after := float64(MaxPace)
	if log := p.logGap.Load(); log != 0 {
		after = max(float64(minPace), paceFactor*math.Exp2(math.Float64frombits(log)))
	}
	since := start
	if last := p.last.Time(); last.After(since) {
		since = last
	}
	if n := p.checks.Load(); n > 0 {
		after = math.Ldexp(after, int(min(n, 16)))
		if at := p.checkedAt.Time(); at.After(since) {
			since = at
		}
	}
	return since.Add(time.Duration(min(after, float64(MaxPace))))
}

// Silence returns how long ago the latest message was at t; a very long time for none.
func (p *Pace) Silence(t time.Time) time.Duration { return p.last.Since(t) }
