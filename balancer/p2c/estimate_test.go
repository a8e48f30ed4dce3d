package p2c

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const ms = float64(time.Millisecond)

func TestEstimate(t *testing.T) {
	tenth := math.Exp(-0.1) // the part that is left after a second
	for _, tc := range []struct {
		name string
		do   func(e *estimate)
		want float64 // at 1 s, in nanoseconds
	}{
		{"unknown", func(*estimate) {}, 0},
		{"the first latency", func(e *estimate) { e.observe(5*ms, 1000) }, 5 * ms},
		{"it comes down with time", func(e *estimate) { e.observe(50*ms, 0) }, 50 * ms * tenth},
		{"a low one comes down faster", func(e *estimate) { e.observe(5*ms, 0) }, 5 * ms * math.Exp(-1)},
		{"a higher one counts at once", func(e *estimate) { e.observe(5*ms, 1000); e.observe(50*ms, 1000) }, 50 * ms},
		{"a lower one at the same time does not count", func(e *estimate) { e.observe(50*ms, 1000); e.observe(5*ms, 1000) }, 50 * ms},
		{"a lower one counts as time passes", func(e *estimate) { e.observe(50*ms, 0); e.observe(5*ms, 1000) }, 50*ms*tenth + 5*ms*(1-tenth)},
		{"raised", func(e *estimate) { e.observe(5*ms, 1000); e.raise(50*ms, 1000) }, 50 * ms},
		{"raised to less", func(e *estimate) { e.observe(50*ms, 0); e.raise(5*ms, 1000) }, 50 * ms * tenth},
		{"raised to less than it was, and more than it is", func(e *estimate) { e.observe(50*ms, 0); e.raise(49*ms, 1000) }, 49 * ms},
		{"raised while unknown", func(e *estimate) { e.raise(50*ms, 1000) }, 0},
		{"begun", func(e *estimate) { e.begin(50*ms, 1000) }, 50 * ms},
		{"begun while known", func(e *estimate) { e.observe(5*ms, 1000); e.begin(50*ms, 1000) }, 5 * ms},
		{"an earlier reading of the clock", func(e *estimate) { e.observe(5*ms, 1000); e.observe(4*ms, 999) }, 5 * ms},
		{"a higher one, at an earlier reading of the clock", func(e *estimate) { e.observe(5*ms, 1000); e.observe(6*ms, 999) }, 6 * ms},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var e estimate
			tc.do(&e)
			assert.InDelta(t, tc.want, e.at(1000), 1e-6*50*ms)
		})
	}
}

func TestKnownEstimateStaysKnown(t *testing.T) {
	var e estimate
	e.observe(ms, 0)
	assert.InDelta(t, 1, e.at(instant((24 * time.Hour).Milliseconds())), 0)
}

func TestEstimateOverTheEndOfTheClock(t *testing.T) {
	var e estimate
	justBefore := instant(math.MaxUint32 - 499)
	e.observe(50*ms, justBefore)
	assert.InDelta(t, 50*ms*math.Exp(-0.1), e.at(justBefore+1000), 100)
	e.observe(5*ms, justBefore+1000)
	assert.Less(t, e.at(justBefore+1000), 50*ms)
}

func TestConcurrentObservationsKeepThePeak(t *testing.T) {
	var e estimate
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				e.observe(float64(g*1000+i+1)*ms, 0)
				e.raise(float64(i+1)*ms, 0)
			}
		})
	}
	wg.Wait()
	assert.InDelta(t, 8000*ms, e.at(0), 1000)
}
