package p2c

import (
	"math"
	"sync/atomic"
	"time"
)

// decay is how fast an estimate comes down: to 1/e in ten seconds, as in Finagle, where
// peak EWMA comes from. It decides how long an endpoint that was slow is left alone: one
// that took ten times as long as the others is tried again after 23 seconds.
const decay = 10 * time.Second

// instant is a time, in milliseconds since the strategy was built. It wraps after 49
// days; an estimate that nothing has touched for 24 days or more may count as new then,
// until the next call to its endpoint.
type instant uint32

// since returns the time from then to i, 0 if then is later, as it may be when two
// goroutines have read the clock in one order and use it in the other.
func (i instant) since(then instant) time.Duration {
	return time.Duration(max(int32(i-then), 0)) * time.Millisecond
}

// estimate is a peak EWMA of latencies in nanoseconds. The zero value knows nothing.
//
// It is one word, so that it is read without a lock, and consistently: the latency, a
// float32, in the upper half, and the instant at which it was so in the lower half.
type estimate struct{ word atomic.Uint64 }

func pack(nanos float64, at instant) uint64 {
	return uint64(math.Float32bits(float32(nanos)))<<32 | uint64(at)
}

func unpack(word uint64) (nanos float64, at instant) {
	return float64(math.Float32frombits(uint32(word >> 32))), instant(uint32(word))
}

// at returns the latency, which comes down with time, 0 if nothing is known. Known ones
// come down to 1 ns and no further.
func (e *estimate) at(now instant) float64 {
	nanos, then := unpack(e.word.Load())
	if nanos == 0 {
		return 0
	}
	return max(nanos*weight(now.since(then)), 1)
}

// begin sets the latency if nothing is known yet.
func (e *estimate) begin(nanos float64, now instant) { e.word.CompareAndSwap(0, pack(nanos, now)) }

// forget makes it know nothing.
func (e *estimate) forget() { e.word.Store(0) }

// observe takes in the latency of a call: a higher one counts at once, a lower one the
// more, the older the estimate is.
func (e *estimate) observe(nanos float64, now instant) {
	for {
		word := e.word.Load()
		old, then := unpack(word)
		w := weight(now.since(then))
		if e.word.CompareAndSwap(word, pack(max(nanos, old*w+nanos*(1-w)), latest(now, then, old))) {
			return
		}
	}
}

// raise takes in that the latency is at least so high. Where nothing is known this shows
// nothing.
func (e *estimate) raise(nanos float64, now instant) {
	for {
		word := e.word.Load()
		old, then := unpack(word)
		if old == 0 || old*weight(now.since(then)) >= nanos {
			return
		}
		if e.word.CompareAndSwap(word, pack(nanos, latest(now, then, old))) {
			return
		}
	}
}

// latest returns now, unless then is later and stands for something that is known.
func latest(now, then instant, known float64) instant {
	if known != 0 && int32(now-then) < 0 {
		return then
	}
	return now
}

// weight is what an estimate of an age is worth, from 1 for a fresh one down to 0.
func weight(age time.Duration) float64 {
	if age == 0 {
		return 1
	}
	return math.Exp(-float64(age) / float64(decay))
}
