package health_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/health"
)

// distributions are latencies as they occur, in seconds. All are slow enough for the floor
// of 20 ms to hide nothing.
var distributions = map[string]func(*rand.Rand) float64{
	"constant":                func(*rand.Rand) float64 { return 0.050 },
	"exponential":             func(r *rand.Rand) float64 { return 0.050 * r.ExpFloat64() },
	"exponential and an RTT":  func(r *rand.Rand) float64 { return 0.100 + 0.020*r.ExpFloat64() },
	"lognormal, sigma 0.5":    func(r *rand.Rand) float64 { return 0.050 * math.Exp(0.5*r.NormFloat64()) },
	"lognormal, sigma 1":      func(r *rand.Rand) float64 { return 0.040 * math.Exp(r.NormFloat64()) },
	"lognormal, sigma 1.5":    func(r *rand.Rand) float64 { return 0.015 * math.Exp(1.5*r.NormFloat64()) },
	"bimodal, 20 % slow":      bimodal(0.2),
	"bimodal, 2 % slow":       bimodal(0.02),
	"bimodal, 1 % slow":       bimodal(0.01),
	"bimodal, 0.5 % slow":     bimodal(0.005),
	"exponential around 5 ms": func(r *rand.Rand) float64 { return 0.005 * r.ExpFloat64() },
	"exponential around 1 s":  func(r *rand.Rand) float64 { return r.ExpFloat64() },
}

func bimodal(slow float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		if r.Float64() < slow {
			return 0.400 + 0.020*r.Float64()
		}
		return 0.030 + 0.005*r.Float64()
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// calls has n calls take as long as dist says, and returns the share of those that took
// longer than HedgeAfter and SuspectAfter.
func calls(l *health.Latency, r *rand.Rand, n int, dist func(*rand.Rand) float64) (hedged, suspected float64) {
	for range n {
		d := seconds(dist(r))
		if d > l.HedgeAfter() {
			hedged++
		}
		if d > l.SuspectAfter() {
			suspected++
		}
		l.Observe(d)
	}
	return hedged / float64(n), suspected / float64(n)
}

func TestLatencyHedgesOneInAHundredAtMost(t *testing.T) {
	for name, dist := range distributions {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			var l health.Latency
			calls(&l, r, 200, dist)
			hedged, suspected := calls(&l, r, 100_000, dist)
			t.Logf("hedged %.2f %%, suspected %.3f %%", 100*hedged, 100*suspected)
			assert.LessOrEqual(t, hedged, 0.01)
			assert.LessOrEqual(t, suspected, hedged)
		})
	}
}

// After a step of ten times, in either direction, 300 samples are enough. It is put where
// the ceiling of two seconds plays no part.
func TestLatencyFollows(t *testing.T) {
	const clients = 80 // one of them makes too few calls to count
	for name, dist := range distributions {
		if name == "exponential around 1 s" {
			continue // three times as much is beyond the ceiling
		}
		fast := func(r *rand.Rand) float64 { return 0.3 * dist(r) }
		slow := func(r *rand.Rand) float64 { return 3 * dist(r) }
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			var up, down float64
			for range clients {
				var l health.Latency
				calls(&l, r, 300, fast)
				calls(&l, r, 300, slow)
				share, _ := calls(&l, r, 300, slow)
				up += share / clients
				calls(&l, r, 300, fast)
				share, _ = calls(&l, r, 300, fast)
				down += share / clients
			}
			t.Logf("hedged %.2f %% after the step up, %.2f %% after the step down", 100*up, 100*down)
			assert.LessOrEqual(t, up, 0.01)
			assert.LessOrEqual(t, down, 0.01)
		})
	}
}

func TestLatencyStepUpCostsFewHedges(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var l health.Latency
	calls(&l, r, 300, distributions["exponential"])
	share, _ := calls(&l, r, 300, func(r *rand.Rand) float64 { return 10 * distributions["exponential"](r) })
	assert.Less(t, share*300, 12.0, "hedges in the 300 calls after the step")
}

func TestLatencyForgets(t *testing.T) {
	var l health.Latency
	observe(&l, 1000, time.Second)
	observe(&l, 199, 10*time.Millisecond)
	assert.LessOrEqual(t, l.P99(), time.Second)
	observe(&l, 1, 10*time.Millisecond)
	assert.Equal(t, 10*time.Millisecond, l.P99())
}

func observe(l *health.Latency, n int, d time.Duration) {
	for range n {
		l.Observe(d)
	}
}

func TestLatencyOutlier(t *testing.T) {
	var l health.Latency
	observe(&l, 100, 30*time.Millisecond)
	l.Observe(time.Hour)
	assert.Equal(t, 30*time.Millisecond, l.P99(), "one outlier is an accident")
	observe(&l, 60, 30*time.Millisecond)
	assert.Equal(t, 30*time.Millisecond, l.P99())
	l.Observe(40 * time.Millisecond)
	assert.Equal(t, 40*time.Millisecond, l.P99(), "the second longest")
}

func TestLatencyBounds(t *testing.T) {
	tests := []struct {
		name           string
		samples        int
		each           time.Duration
		hedge, suspect time.Duration
	}{
		{"nothing is known", 0, 0, 250 * time.Millisecond, 400 * time.Millisecond},
		{"too little is known", 19, time.Millisecond, 250 * time.Millisecond, 400 * time.Millisecond},
		{"the floor", 20, time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond},
		{"no time at all", 20, -time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond},
		{"in between", 200, 100 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond},
		{"calls that always take long", 200, 3 * time.Second, 4500 * time.Millisecond, 9 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l health.Latency
			observe(&l, tt.samples, tt.each)
			assert.Equal(t, tt.hedge, l.HedgeAfter())
			assert.Equal(t, tt.suspect, l.SuspectAfter())
		})
	}
	t.Run("after an outage", func(t *testing.T) {
		var l health.Latency
		observe(&l, 200, 5*time.Millisecond)
		observe(&l, 3, 10*time.Second)
		assert.Equal(t, 2*time.Second, l.HedgeAfter(), "the ceiling")
		assert.Equal(t, 1500*time.Millisecond, l.SuspectAfter(), "the ceiling")
	})
}

func TestLatencyConcurrently(t *testing.T) {
	var l health.Latency
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				l.Observe(50 * time.Millisecond)
				if after := l.HedgeAfter(); after != 250*time.Millisecond && after != 75*time.Millisecond {
					t.Errorf("HedgeAfter is %v", after)
				}
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 50*time.Millisecond, l.P99())
}

func TestLatencyDoesNotAllocate(t *testing.T) {
	var l health.Latency
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		l.Observe(time.Millisecond)
		l.HedgeAfter()
		l.SuspectAfter()
	}))
}
