package p2c

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/balancer"
)

// bed is a strategy with endpoints and a clock.
type bed struct {
	*strategy
	eps     []*balancer.Endpoint
	elapsed time.Duration
}

func newBed(n int) *bed {
	b := &bed{}
	b.strategy = build(func() time.Time { return epoch.Add(b.elapsed) }, rand.New(rand.NewPCG(1, 2)).IntN)
	for i := range n {
		b.eps = append(b.eps, balancer.Detached(fmt.Sprint(i), nil, b.Attach(nil)))
	}
	return b
}

// latency returns the estimate of an endpoint.
func (b *bed) latency(ep *balancer.Endpoint) float64 { return recordOf(ep).latency.at(b.instant()) }

// answers reports to the strategy how long a call to each endpoint took.
func (b *bed) answers(took ...time.Duration) {
	for i, d := range took {
		b.Done(b.eps[i], balancer.Result{Took: d, Answered: true})
	}
}

func (b *bed) picks(call balancer.Call, n int) map[string]int {
	counts := make(map[string]int)
	for range n {
		counts[b.Pick(call, b.eps).Address()]++
	}
	return counts
}

func TestFourEndpointsAreAllCompared(t *testing.T) {
	for n := 2; n <= compareAll; n++ {
		b := newBed(n)
		b.answers([]time.Duration{10 * time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 9 * time.Millisecond}[:n]...)
		assert.Equal(t, map[string]int{"1": 100}, b.picks(balancer.Call{}, 100), "%d endpoints", n)
	}
}

func TestTwoOfManyEndpointsAreCompared(t *testing.T) {
	b := newBed(5)
	b.answers(10*time.Millisecond, 20*time.Millisecond, 30*time.Millisecond, 40*time.Millisecond, 50*time.Millisecond)
	counts := b.picks(balancer.Call{}, 10_000)
	// The best endpoint is in 4 of the 10 pairs, the next best one in 3 of the others, and so on.
	for i, share := range []float64{0.4, 0.3, 0.2, 0.1, 0} {
		assert.InDelta(t, share*10_000, counts[fmt.Sprint(i)], 300, "endpoint %d", i)
	}
}

func TestInFlightCallsRaiseCost(t *testing.T) {
	b := newBed(2)
	b.answers(10*time.Millisecond, 25*time.Millisecond)
	var order []string
	for range 4 {
		ep := b.Pick(balancer.Call{}, b.eps)
		ep.AddInFlight(1)
		order = append(order, ep.Address())
	}
	assert.Equal(t, []string{"0", "0", "1", "0"}, order, "costs 10|25, 20|25, 30|25, 30|50")
	b.eps[0].AddInFlight(-1)
	b.eps[0].AddInFlight(-1)
	assert.Equal(t, "0", b.Pick(balancer.Call{}, b.eps).Address())
}

// Endpoints have their share of the calls of clients that make one at a time, and of those in flight.
func TestWeightsAreShares(t *testing.T) {
	for _, n := range []int{2, 4, 10} {
		for busy, within := range []float64{4, 0.2 * 3000} {
			b := newBed(n)
			b.answers(slices.Repeat([]time.Duration{10 * time.Millisecond}, n)...)
			b.eps[0].SetWeight(3)
			counts := make(map[string]int)
			for range (n + 2) * 1000 {
				ep := b.Pick(balancer.Call{}, b.eps)
				ep.AddInFlight(busy)
				counts[ep.Address()]++
			}
			for i, ep := range b.eps {
				assert.InDelta(t, 1000*int(ep.Weight()), counts[ep.Address()], within, "endpoint %d of %d", i, n)
			}
		}
		b := newBed(n)
		b.answers(slices.Repeat([]time.Duration{10 * time.Millisecond}, n)...)
		b.answers(time.Second)
		b.eps[0].SetWeight(100)
		assert.Zero(t, b.picks(balancer.Call{}, 1000)["0"], "a slow one of %d", n)
	}
}

func TestEqualEndpointsAreEquallyLikely(t *testing.T) {
	for _, n := range []int{2, 3, 4, 10} {
		b := newBed(n)
		for _, count := range b.picks(balancer.Call{}, n*1000) {
			assert.InDelta(t, 1000, count, 200, "%d endpoints", n)
		}
	}
}

// One call that takes a few milliseconds is chance, the second is not.
func TestASingleLateCallIsChance(t *testing.T) {
	b := newBed(3)
	b.answers(time.Millisecond, time.Millisecond, time.Millisecond)
	late := balancer.Result{Took: 3 * time.Millisecond, Answered: true}
	b.Done(b.eps[0], late)
	assert.InDelta(t, 1000, b.picks(balancer.Call{}, 3000)["0"], 200)
	b.Done(b.eps[0], balancer.Result{Took: time.Millisecond, Answered: true})
	b.Done(b.eps[0], late)
	assert.InDelta(t, 1000, b.picks(balancer.Call{}, 3000)["0"], 200)
	b.Done(b.eps[0], late)
	assert.Zero(t, b.picks(balancer.Call{}, 3000)["0"])
}

func TestBrieflyLateEndpointHasItsShareSoon(t *testing.T) {
	b := newBed(3)
	b.answers(time.Millisecond, time.Millisecond, time.Millisecond)
	b.Done(b.eps[0], balancer.Result{Took: 5 * time.Millisecond, Answered: true})
	assert.Zero(t, b.picks(balancer.Call{}, 3000)["0"])
	b.elapsed += 2 * time.Second
	assert.InDelta(t, 1000, b.picks(balancer.Call{}, 3000)["0"], 200)
}

func TestResultsUpdateEstimates(t *testing.T) {
	const took = 5 * time.Millisecond // the estimate so far
	unavailable := errors.New("unavailable")
	for _, tc := range []struct {
		name   string
		result balancer.Result
		want   time.Duration
	}{
		{"higher", balancer.Result{Took: time.Second / 2, Answered: true}, time.Second / 2},
		{"lower", balancer.Result{Took: time.Millisecond, Answered: true}, took},
		{"answered with an error of the request's", balancer.Result{Took: time.Second / 2, Answered: true, Err: unavailable}, time.Second / 2},
		{"failed at once", balancer.Result{Took: 1, Answered: true, Err: unavailable, Failed: true}, failure},
		{"failed late", balancer.Result{Took: 3 * time.Second, Err: unavailable, Failed: true}, 3 * time.Second},
		{"failed very late", balancer.Result{Took: time.Hour, Err: unavailable, Failed: true}, longest},
		{"waited on purpose", balancer.Result{Took: time.Hour, Answered: true}, longest},
		{"canceled early", balancer.Result{Took: time.Millisecond, Err: context.Canceled}, took},
		{"canceled late", balancer.Result{Took: time.Second / 2, Err: context.Canceled}, time.Second / 2},
		{"a stream", balancer.Result{Call: balancer.Call{Conn: balancer.Streams}, Took: time.Hour, Answered: true}, took},
		{"a stream that failed", balancer.Result{Call: balancer.Call{Conn: balancer.Streams}, Took: time.Hour, Failed: true, Err: unavailable}, failure},
		{"bulk", balancer.Result{Call: balancer.Call{Conn: balancer.Bulk}, Took: time.Hour, Answered: true}, took},
		{"bulk that failed", balancer.Result{Call: balancer.Call{Conn: balancer.Bulk}, Took: time.Hour, Failed: true, Err: unavailable}, failure},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(1)
			b.answers(took)
			b.Done(b.eps[0], tc.result)
			assert.InEpsilon(t, float64(tc.want), b.latency(b.eps[0]), 1e-6)
		})
	}
}

func TestFailingEndpointIsTriedAgain(t *testing.T) {
	b := newBed(2)
	b.answers(10 * time.Millisecond)
	b.Done(b.eps[1], balancer.Result{Took: 1, Failed: true, Err: errors.New("unavailable")})
	b.elapsed = 43 * time.Second
	b.answers(10 * time.Millisecond)
	assert.Equal(t, map[string]int{"0": 100}, b.picks(balancer.Call{}, 100))
	b.elapsed = 50 * time.Second
	b.answers(10 * time.Millisecond)
	assert.Equal(t, map[string]int{"1": 100}, b.picks(balancer.Call{}, 100))
}

func TestRestoredEndpointStartsAgain(t *testing.T) {
	b := newBed(2)
	b.answers(10*time.Millisecond, 10*time.Millisecond)
	b.Done(b.eps[1], balancer.Result{Took: 5 * time.Second, Failed: true, Err: errors.New("given up")})
	b.eps[0].AddInFlight(1)
	assert.Equal(t, map[string]int{"0": 100}, b.picks(balancer.Call{}, 100))
	b.elapsed = time.Second
	b.answers(10 * time.Millisecond)
	b.Restored(b.eps[1])
	b.Done(b.eps[1], balancer.Result{Took: time.Second, Answered: true}) // it began before
	assert.Equal(t, map[string]int{"1": 100}, b.picks(balancer.Call{}, 100))
}

// A slow endpoint answers probes. It is suspected and re-admitted again and again.
func TestRestoringDiscardsTheEstimateLessAndLessOften(t *testing.T) {
	b, discarded := newBed(1), 0
	for range 600 {
		b.elapsed += time.Second
		b.answers(time.Second)
		b.Restored(b.eps[0])
		if b.latency(b.eps[0]) == 0 {
			discarded++
		}
	}
	assert.InDelta(t, 15, discarded, 3, "after 1, 2, 4, 8, 16, 32, 60, 60… s")
}

func TestNearlyEqualEndpointsAreEquallyLikely(t *testing.T) {
	for name, took := range map[string][]time.Duration{
		"within the band":     {10 * time.Millisecond, 10.5e6, 11 * time.Millisecond},
		"below a millisecond": {50 * time.Microsecond, 100 * time.Microsecond, time.Millisecond},
	} {
		b := newBed(3)
		b.answers(took...)
		for _, count := range b.picks(balancer.Call{}, 3000) {
			assert.InDelta(t, 1000, count, 150, name)
		}
	}
}

func TestNewEndpoint(t *testing.T) {
	t.Run("starts at the mean of the others", func(t *testing.T) {
		b := newBed(3)
		b.answers(10*time.Millisecond, 30*time.Millisecond) // harmonic mean 15 ms
		assert.Equal(t, map[string]int{"0": 100}, b.picks(balancer.Call{}, 100))
		b.eps[0].AddInFlight(1)
		assert.Equal(t, map[string]int{"2": 100}, b.picks(balancer.Call{}, 100))
	})
	t.Run("gets no more calls before its first reply", func(t *testing.T) {
		b := newBed(3)
		b.answers(10*time.Millisecond, 30*time.Millisecond)
		b.eps[2].AddInFlight(1)
		b.eps[0].AddInFlight(1)
		b.eps[0].AddInFlight(1)
		b.eps[1].AddInFlight(1)
		assert.Equal(t, map[string]int{"0": 100}, b.picks(balancer.Call{}, 100), "costs 30, 60, 200")
	})
	t.Run("is preferred to one that fails", func(t *testing.T) {
		b := newBed(2)
		b.Done(b.eps[0], balancer.Result{Took: 1, Failed: true, Err: errors.New("unavailable")})
		b.eps[1].AddInFlight(1)
		assert.Equal(t, map[string]int{"1": 100}, b.picks(balancer.Call{}, 100))
	})
	t.Run("is avoided after its first call was canceled", func(t *testing.T) {
		b := newBed(2)
		b.answers(10 * time.Millisecond)
		b.Done(b.eps[1], balancer.Result{Took: time.Millisecond, Err: context.Canceled})
		assert.Equal(t, map[string]int{"0": 100}, b.picks(balancer.Call{}, 100))
	})
	t.Run("gets its measured latency", func(t *testing.T) {
		b := newBed(2)
		b.answers(10*time.Millisecond, time.Millisecond)
		assert.Equal(t, map[string]int{"1": 100}, b.picks(balancer.Call{}, 100))
	})
}

func TestEstimatesSurviveChangingFits(t *testing.T) {
	b := newBed(3)
	b.answers(10*time.Millisecond, 20*time.Millisecond, time.Millisecond)
	require.Equal(t, b.eps[2], b.Pick(balancer.Call{}, b.eps))
	require.Equal(t, b.eps[0], b.Pick(balancer.Call{}, b.eps[:2]))
	require.Equal(t, b.eps[1], b.Pick(balancer.Call{}, b.eps[1:2]))
	assert.Equal(t, b.eps[2], b.Pick(balancer.Call{}, b.eps))
}

func TestStreamsTakeTurns(t *testing.T) {
	b := newBed(3)
	b.answers(time.Millisecond, time.Second, time.Second)
	assert.Equal(t, map[string]int{"0": 10, "1": 10, "2": 10}, b.picks(balancer.Call{Conn: balancer.Streams}, 30))
}

func TestLongIdleEndpointsShareByLoad(t *testing.T) {
	b := newBed(2)
	b.answers(time.Millisecond, time.Second)
	b.elapsed = 24 * time.Hour
	b.eps[0].AddInFlight(1)
	assert.Equal(t, map[string]int{"1": 100}, b.picks(balancer.Call{}, 100))
}

func TestEndpointsWithoutRecordsAreChosenByLoad(t *testing.T) {
	s := Builder.Build(nil)
	var eps []*balancer.Endpoint
	for i := range 5 {
		eps = append(eps, balancer.Detached(fmt.Sprint(i), nil, nil))
	}
	eps[0].AddInFlight(1)
	for range 1000 {
		ep := s.Pick(balancer.Call{}, eps)
		s.(balancer.Learner).Done(ep, balancer.Result{Took: 1, Answered: true})
		assert.NotEqual(t, eps[0], ep, "the only one with a call in flight")
	}
	assert.Equal(t, "p2c", Builder.Name)
}

func TestConcurrentPicksAndResults(t *testing.T) {
	for _, n := range []int{3, 10} {
		b := newBed(n)
		s := build(time.Now, rand.IntN)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range 1000 {
					call := balancer.Call{Conn: balancer.ConnClass(i % 3)}
					ep := s.Pick(call, b.eps[i%2:])
					ep.AddInFlight(1)
					ep.AddInFlight(-1)
					s.Done(ep, balancer.Result{Call: call, Took: time.Duration(i), Answered: i%5 > 0, Failed: i%7 == 0})
				}
			})
		}
		wg.Wait()
		for _, ep := range b.eps {
			assert.Zero(t, ep.InFlight())
			assert.InDelta(t, float64(failure), recordOf(ep).latency.at(s.instant()), 0.5*float64(failure), "each has just failed")
		}
	}
}

func TestPickDoesNotAllocate(t *testing.T) {
	for _, n := range []int{1, 3, 10} {
		b := newBed(n)
		pickAndEnd := func() {
			b.Done(b.Pick(balancer.Call{}, b.eps), balancer.Result{Took: 5 * time.Millisecond, Answered: true})
		}
		assert.Zero(t, testing.AllocsPerRun(100, pickAndEnd), "%d endpoints", n)
	}
}

func TestMeanIsOfFewOfMany(t *testing.T) {
	b := newBed(1000)
	b.random = func(int) int { return 0 }
	b.Done(b.eps[meanOf], balancer.Result{Took: 5 * time.Millisecond, Answered: true})
	assert.True(t, math.IsInf(b.mean(b.eps, b.instant()), 1))
	b.Done(b.eps[meanOf-1], balancer.Result{Took: 5 * time.Millisecond, Answered: true})
	assert.Less(t, b.mean(b.eps, b.instant()), math.Inf(1))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
