package nearest

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/balancer/roundrobin"
)

const (
	// gain is the least weight of a new measurement. At a sixteenth the smoothed latency
	// of calls whose latency varies as much as an exponential distribution does is within
	// a fifth of its mean most of the time.
	gain = 1.0 / 16
	// memory is how old an estimate is when it has lost most of its weight (1 - 1/e), so
	// that one measurement is enough where there are few.
	memory = 10 * time.Second
	// slow is the latency recorded for a failed call, and the maximum for any call. One
	// failure adds a sixteenth of it, 62 ms, which is more than the latency to any other
	// endpoint: the next call goes elsewhere. It takes about 64 successes to recover, or
	// one if the endpoint was ejected meanwhile.
	slow = time.Second
)

// distance is the smoothed latency of one endpoint.
type distance struct {
	turn roundrobin.Turn

	latency atomic.Int64 // nanoseconds, 0 if unknown
	mu      sync.Mutex   // held to change the latency
	at      time.Time    // when it was changed
}

// smoothed returns the latency, 0 if unknown.
func (d *distance) smoothed() time.Duration { return time.Duration(d.latency.Load()) }

// forget makes the distance unknown.
func (d *distance) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.latency.Store(0)
}

// measured records the latency of a call.
func (d *distance) measured(took time.Duration, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.updateLocked(took, now)
}

// givenUp records an unanswered call that its caller gave up. It counts only if the call
// had waited longer than usual. An endpoint without an estimate counts as slow then, so
// that the next call does not try it again.
func (d *distance) givenUp(took time.Duration, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch known := d.smoothed(); {
	case known == 0:
		d.updateLocked(slow, now)
	case took > known:
		d.updateLocked(took, now)
	}
}

func (d *distance) updateLocked(took time.Duration, now time.Time) {
	took = max(took, 1)
	if known := d.smoothed(); known != 0 {
		weight := max(gain, 1-math.Exp(-float64(now.Sub(d.at))/float64(memory)))
		took = known + time.Duration(weight*float64(took-known))
	}
	d.latency.Store(int64(took))
	d.at = now
}
