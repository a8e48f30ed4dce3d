package health

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// rhythmWindow is for how long a gap is remembered at least; twice that at most. It
	// must cover work that comes in bursts, and a fault that made a stream pause should
	// not hide the next one for long.
	rhythmWindow = 10 * time.Second
	// rhythmFactor is how many times the longest gap a silence must last. Messages that
	// come at random, ten a second, are silent for that long three times an hour;
	// messages at a fixed pace never are.
	rhythmFactor = 2
	// minRhythm is the shortest silence that is suspicious, longer than the pauses of a
	// busy process or host.
	minRhythm = 150 * time.Millisecond
	// maxRhythm is the longest: streams that are silent for more than a second now and
	// then are quiet by nature.
	maxRhythm = rhythmFactor * time.Second
	// rhythmLearnt is for how long a stream must have spoken before its silence says
	// anything: one burst of events is no rhythm.
	rhythmLearnt = time.Second
	// maxClearances is more than it takes from minRhythm to maxRhythm.
	maxClearances = 8
)

// Rhythm learns how long a stream usually is silent between two messages, and from that
// when a silence is suspicious. The zero value has learnt nothing and is ready for use.
//
// A silence is suspicious when it lasts twice as long as the longest gap of the last ten
// to twenty seconds, but for 150 ms at least. A stream with gaps of more than a second is
// quiet, and so is one that has spoken for less than a second: its silence says nothing,
// and a slow probe has to look whether the other end is alive.
//
// Phi-accrual detectors take the gaps for normally distributed, and expect the next
// message within their mean and some deviations. Watches are not like that: a transaction
// makes a burst of events, after which the mean is microseconds, and the pause until the
// next is suspicious every time. The longest gap knows of pauses between bursts.
//
// Heard is called by one goroutine at a time, the reader of the stream; the other methods
// may be called from any. The times must come from one clock; steps of the wall clock do
// no harm.
type Rhythm struct {
	begin atomic.Pointer[time.Time] // the first message; nil before it

	// In nanoseconds since begin: the latest message, and the begin of this window.
	last, window atomic.Int64
	// In nanoseconds: the longest gap in this window, and in the one before.
	gap, gapBefore atomic.Int64

	mu      sync.Mutex
	cleared clearance
}

// clearance is what was found out during one silence.
type clearance struct {
	silence int64 // the message after which it began
	at      int64
	times   int
}

// Heard notes a message. It takes a few nanoseconds.
func (r *Rhythm) Heard(at time.Time) {
	begin := r.begin.Load()
	if begin == nil {
		first := at // so that at itself does not escape, which would allocate every time
		r.begin.Store(&first)
		return
	}
	now := int64(at.Sub(*begin))
	gap := now - r.last.Load()
	if gap <= 0 {
		return
	}
	if now-r.window.Load() >= int64(rhythmWindow) {
		r.gapBefore.Store(r.gap.Load())
		r.gap.Store(gap)
		r.window.Store(now)
	} else if gap > r.gap.Load() {
		r.gap.Store(gap)
	}
	r.last.Store(now)
}

// SuspectAt returns when the present silence will have lasted so long that it is
// suspicious; the zero time if it never will. The time may be past.
func (r *Rhythm) SuspectAt() time.Time {
	begin, last := r.begin.Load(), r.last.Load()
	if begin == nil || last < int64(rhythmLearnt) {
		return time.Time{}
	}
	after := max(minRhythm, rhythmFactor*time.Duration(max(r.gap.Load(), r.gapBefore.Load())))
	since := last
	r.mu.Lock()
	if c := r.cleared; c.times > 0 && c.silence == last {
		since, after = c.at, after<<c.times
	}
	r.mu.Unlock()
	if after > maxRhythm {
		return time.Time{}
	}
	return begin.Add(time.Duration(since) + after)
}

// Cleared notes that the present silence was looked into. It becomes suspicious again
// when it lasts, from then on, twice as long as it had to before; after 2 s never more.
// The next message ends it, and with it the clearance.
func (r *Rhythm) Cleared(at time.Time) {
	begin := r.begin.Load()
	if begin == nil {
		return
	}
	last := r.last.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cleared.silence != last {
		r.cleared = clearance{silence: last}
	}
	r.cleared.at = int64(at.Sub(*begin))
	r.cleared.times = min(r.cleared.times+1, maxClearances)
}
