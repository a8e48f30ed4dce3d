package p2c

import (
	"math"
	"sync/atomic"
	"time"
)

// An estimate comes down to 1/e in decayPerLatency times itself, and in decay, Finagle's constant, at
// most: that is how long a slow endpoint is avoided. One that took 5 ms where others take 1 ms is
// tried again after 1.5 s, one that took 100 ms where others take 10 ms after 23 s.
const (
	decay           = 10 * time.Second
	decayPerLatency = 200
)

// instant is a time, in milliseconds since the strategy was built. It wraps after 49
// days; an estimate not updated for 24 days or more may count as new until the next call
// to its endpoint.
type instant uint32

// since returns the time from then to i, or 0 if then is later, which happens when
// goroutines use their clock readings out of order.
func (i instant) since(then instant) time.Duration {
	return time.Duration(max(int32(i-then), 0)) * time.Millisecond
}

// estimate is a peak EWMA of latencies in nanoseconds. The zero value is unknown.
//
// It is one word, for consistent reads without a lock: the latency, a float32, in the
// upper half, and its instant in the lower half.
type estimate struct{ word atomic.Uint64 }

func pack(nanos float64, at instant) uint64 {
	return uint64(math.Float32bits(float32(nanos)))<<32 | uint64(at)
}

func unpack(word uint64) (nanos float64, at instant) {
	return float64(math.Float32frombits(uint32(word >> 32))), instant(uint32(word))
}

// at returns the decayed latency, 0 if unknown. A known latency decays to 1 ns at least.
func (e *estimate) at(now instant) float64 {
	nanos, then := unpack(e.word.Load())
	if nanos == 0 {
		return 0
	}
	return max(nanos*weight(nanos, now.since(then)), 1)
}

// begin sets the latency if it is unknown.
func (e *estimate) begin(nanos float64, now instant) { e.word.CompareAndSwap(0, pack(nanos, now)) }

// forget makes the latency unknown.
func (e *estimate) forget() { e.word.Store(0) }

// observe records the latency of a call: a higher one replaces the estimate, a lower one
// has more weight the older the estimate is.
func (e *estimate) observe(nanos float64, now instant) {
	for {
		word := e.word.Load()
		old, then := unpack(word)
		w := weight(old, now.since(then))
		if e.word.CompareAndSwap(word, pack(max(nanos, old*w+nanos*(1-w)), latest(now, then, old))) {
			return
		}
	}
}

// raise records that the latency is at least nanos. An unknown latency stays unknown.
func (e *estimate) raise(nanos float64, now instant) {
	for {
		word := e.word.Load()
		old, then := unpack(word)
		if old == 0 || old*weight(old, now.since(then)) >= nanos {
			return
		}
		if e.word.CompareAndSwap(word, pack(nanos, latest(now, then, old))) {
			return
		}
	}
}

// latest returns the later of now and then; then counts only if the latency is known.
func latest(now, then instant, known float64) instant {
	if known != 0 && int32(now-then) < 0 {
		return then
	}
	return now
}

// weight is the weight of an estimate by its age, from 1 for a fresh one down to 0.
func weight(nanos float64, age time.Duration) float64 {
	if age == 0 {
		return 1
	}
	return math.Exp(-float64(age) / min(float64(decay), decayPerLatency*nanos))
}
