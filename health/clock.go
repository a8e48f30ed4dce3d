package health

import (
	"math"
	"sync/atomic"
	"time"
)

// begin is the origin of Stamps. It has a monotonic reading, so that steps of the wall
// clock have no effect.
var begin = time.Now()

// Now is time.Now for measuring: it reads one clock instead of two, which is half of the cost.
// The wall-clock part of the result is the start of the program plus the elapsed time.
func Now() time.Time { return begin.Add(time.Since(begin)) }

// Moment is a time in 8 bytes instead of the 24 of a time.Time. Steps of the wall clock have
// no effect on it.
type Moment int64 // nanoseconds since begin

// MomentOf returns the moment of t.
func MomentOf(t time.Time) Moment { return Moment(t.Sub(begin)) }

// Time returns the moment as a time.Time.
func (m Moment) Time() time.Time { return begin.Add(time.Duration(m)) }

// Stamp is a moment that can be read and moved forward without a lock. The zero value
// means "never". Steps of the wall clock have no effect on it.
type Stamp struct{ nanos atomic.Int64 }

// Set moves the stamp forward to t. A later stamp stays.
func (s *Stamp) Set(t time.Time) {
	// Zero means "never", so the reading of begin itself becomes one nanosecond.
	now := int64(t.Sub(begin))
	if now == 0 {
		now = 1
	}
	for {
		old := s.nanos.Load()
		if old != 0 && old >= now || s.nanos.CompareAndSwap(old, now) {
			return
		}
	}
}

// After reports whether the stamp is later than t, or equal to it.
func (s *Stamp) After(t time.Time) bool {
	nanos := s.nanos.Load()
	return nanos != 0 && nanos >= int64(t.Sub(begin))
}

// Since returns how long before t the stamp is; a very long time for the zero value.
func (s *Stamp) Since(t time.Time) time.Duration {
	nanos := s.nanos.Load()
	if nanos == 0 {
		return math.MaxInt64
	}
	return time.Duration(int64(t.Sub(begin)) - nanos)
}

// Time returns the stamp as a time.Time; the zero time for the zero value.
func (s *Stamp) Time() time.Time {
	nanos := s.nanos.Load()
	if nanos == 0 {
		return time.Time{}
	}
	return begin.Add(time.Duration(nanos))
}
