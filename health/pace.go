package health

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// paceWindow is the time constant of the average. A pause of one second among steady
	// messages at most doubles the threshold.
	paceWindow = 5 * time.Second
	// paceFactor is how many typical pauses a silence must last. If messages arrive at
	// random, one pause in 400 is that long.
	paceFactor = 4
	// minPace is longer than the pauses of a busy process or host.
	minPace = 250 * time.Millisecond
	// MaxPace is the silence after which every stream is due for a check: the minimum
	// interval of gRPC's keepalive.
	MaxPace = 10 * time.Second
)

// Pace estimates the usual pause between two messages of a stream. The zero value is
// ready to use.
//
// The estimate is the average of the logarithms of the pauses, weighted by their length: the
// typical pause at a random moment. A stream that sends a burst every second has a pace of
// about a second, regardless of the size of the bursts; a stream that sends 50 messages per
// second, and paused once for a second, keeps a pace of about 30 ms.
//
// Only the reader of the stream may call Observe; the other methods may be called
// concurrently. None locks or allocates.
type Pace struct {
	last      Stamp
	logGap    atomic.Uint64 // the average, as bits of a float64: log2 of nanoseconds
	weight    float64       // of the pauses in the average, up to 1; Observe's alone
	checks    atomic.Int64  // of the present silence
	checkedAt Stamp
}

// Observe records a message.
func (p *Pace) Observe(at time.Time) {
	gap := p.last.Since(at)
	p.last.Set(at)
	if p.checks.Load() != 0 {
		p.checks.Store(0)
	}
	if gap <= 0 || gap == math.MaxInt64 {
		return
	}
	// The average of a new stream covers only its pauses so far, so that two messages in
	// quick succession at the start have no lasting effect.
	weight := -math.Expm1(-float64(gap) / float64(paceWindow))
	p.weight += weight * (1 - p.weight)
	average := math.Float64frombits(p.logGap.Load())
	average += weight / p.weight * (math.Log2(float64(gap)) - average)
	p.logGap.Store(math.Float64bits(average))
}

// Checked records a check of the present silence. The time until its next check doubles, up
// to 10 s.
func (p *Pace) Checked(at time.Time) {
	p.checks.Add(1)
	p.checkedAt.Set(at)
}

// DueAt returns when to check the present silence: four typical pauses after the latest
// message, at least 250 ms and at most 10 s. A stream that was opened at start and has
// sent fewer than two messages has no pace, and is due after 10 s.
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

// Silence returns how long before t the latest message arrived; a very long time if none
// did.
func (p *Pace) Silence(t time.Time) time.Duration { return p.last.Since(t) }
