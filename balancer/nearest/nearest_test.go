package nearest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/balancer"
)

const ms = time.Millisecond

var epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// bed is a strategy with endpoints and a clock.
type bed struct {
	*strategy
	eps     []*balancer.Endpoint
	elapsed time.Duration
}

func newBed(n int) *bed {
	b := &bed{}
	b.strategy = build(func() time.Time { return epoch.Add(b.elapsed) })
	for i := range n {
		b.eps = append(b.eps, balancer.Detached(fmt.Sprint(i), nil, b.Attach(nil)))
	}
	return b
}

// answers reports to the strategy how long a call to each endpoint took.
func (b *bed) answers(took ...time.Duration) {
	for i, d := range took {
		b.Done(b.eps[i], balancer.Result{Took: d, Answered: true})
	}
}

var exploringNothing = balancer.Call{Conn: balancer.Streams}

// picks returns how often each endpoint is picked for n calls.
func (b *bed) picks(call balancer.Call, fit []*balancer.Endpoint, n int) map[string]int {
	counts := make(map[string]int)
	for range n {
		counts[b.Pick(call, fit).Address()]++
	}
	return counts
}

func TestNearestEndpointIsUsed(t *testing.T) {
	b := newBed(3)
	b.answers(2*ms, ms, 3*ms)
	for _, class := range []balancer.ConnClass{balancer.Calls, balancer.Streams, balancer.Bulk} {
		assert.Equal(t, map[string]int{"1": 20}, b.picks(balancer.Call{Conn: class}, b.eps, 20), "class %d", class)
	}
	assert.Equal(t, map[string]int{"0": 20}, b.picks(exploringNothing, []*balancer.Endpoint{b.eps[0], b.eps[2]}, 20), "the nearest is not fit")
}

func TestEndpointTakesOverIfItIsWorthwhile(t *testing.T) {
	for _, tc := range []struct {
		held, other time.Duration
		want        bool
	}{
		{10 * ms, 10 * ms, false},
		{10 * ms, 8100 * time.Microsecond, false},
		{10 * ms, 8 * ms, true},
		{10 * ms, 20 * ms, false},
		{900 * time.Microsecond, 710 * time.Microsecond, false}, // by 21 %, and 0.19 ms
		{900 * time.Microsecond, 700 * time.Microsecond, true},  // by 22 %, and 0.2 ms
		{300 * time.Microsecond, 110 * time.Microsecond, false},
		{1300 * time.Microsecond, 300 * time.Microsecond, true}, // from another zone to one's own
	} {
		t.Run(fmt.Sprintf("%v against %v", tc.other, tc.held), func(t *testing.T) {
			b := newBed(2)
			b.answers(tc.held)
			require.Equal(t, map[string]int{"0": 1}, b.picks(exploringNothing, b.eps, 1))
			b.Done(b.eps[1], balancer.Result{Took: tc.other, Answered: true})
			want := map[string]int{"0": 10}
			if tc.want {
				want = map[string]int{"1": 10}
			}
			assert.Equal(t, want, b.picks(exploringNothing, b.eps, 10))
		})
	}
}

func TestOneCallIn64GoesToAnotherEndpoint(t *testing.T) {
	b := newBed(3)
	b.answers(2*ms, ms, 3*ms)
	assert.Equal(t, map[string]int{"0": 10, "1": 64*30 - 20, "2": 10}, b.picks(balancer.Call{}, b.eps, 64*30))
}

func TestOtherEndpointsAreMeasured(t *testing.T) {
	b := newBed(2)
	b.answers(2*ms, 5*ms)
	require.Equal(t, map[string]int{"0": 1}, b.picks(exploringNothing, b.eps, 1))
	latency := map[string]time.Duration{"0": 2 * ms, "1": ms} // the other one has come nearer
	for range 1000 {                                          // 10 s
		ep := b.Pick(balancer.Call{}, b.eps)
		b.elapsed += 10 * ms
		b.Done(ep, balancer.Result{Took: latency[ep.Address()], Answered: true})
	}
	require.Equal(t, map[string]int{"0": 1}, b.picks(exploringNothing, b.eps, 1), "not before enough measurements")
	for range 5000 {
		ep := b.Pick(balancer.Call{}, b.eps)
		b.elapsed += 10 * ms
		b.Done(ep, balancer.Result{Took: latency[ep.Address()], Answered: true})
	}
	assert.Equal(t, map[string]int{"1": 1}, b.picks(exploringNothing, b.eps, 1))
}

func TestUnmeasuredEndpointsAreTriedOnceAtATime(t *testing.T) {
	b := newBed(3)
	for i := range b.eps {
		ep := b.Pick(balancer.Call{}, b.eps)
		require.Equal(t, b.eps[i], ep)
		ep.AddInFlight(1)
	}
	assert.Equal(t, map[string]int{"0": 10, "1": 10, "2": 10}, b.picks(balancer.Call{}, b.eps, 30), "no reply yet")
	b.Done(b.eps[1], balancer.Result{Took: ms, Answered: true})
	b.eps[1].AddInFlight(-1)
	assert.Equal(t, b.eps[1], b.Pick(balancer.Call{}, b.eps), "the first calls of the others are in flight")
	b.eps[0].AddInFlight(-1)
	assert.Equal(t, b.eps[1], b.Pick(balancer.Call{Conn: balancer.Streams}, b.eps), "a stream measures nothing")
	assert.Equal(t, b.eps[0], b.Pick(balancer.Call{}, b.eps))
}

func TestResultsUpdateEstimates(t *testing.T) {
	const took = 16 * ms // the estimate so far
	unavailable := errors.New("unavailable")
	for _, tc := range []struct {
		name   string
		result balancer.Result
		want   time.Duration
	}{
		{"later", balancer.Result{Took: 32 * ms, Answered: true}, 17 * ms},
		{"sooner", balancer.Result{Took: 0, Answered: true}, 15 * ms},
		{"answered with an error of the request's", balancer.Result{Took: 32 * ms, Answered: true, Err: unavailable}, 17 * ms},
		{"failed at once", balancer.Result{Took: 1, Answered: true, Err: unavailable, Failed: true}, took + (slow-took)/16},
		{"failed late", balancer.Result{Took: time.Hour, Err: unavailable, Failed: true}, took + (slow-took)/16},
		{"waited on purpose", balancer.Result{Took: time.Hour, Answered: true}, took + (slow-took)/16},
		{"canceled early", balancer.Result{Took: ms, Err: context.Canceled}, took},
		{"canceled late", balancer.Result{Took: 32 * ms, Err: context.Canceled}, 17 * ms},
		{"a stream", balancer.Result{Call: balancer.Call{Conn: balancer.Streams}, Took: time.Hour, Answered: true}, took},
		{"a stream that failed", balancer.Result{Call: balancer.Call{Conn: balancer.Streams}, Failed: true, Err: unavailable}, took + (slow-took)/16},
		{"bulk", balancer.Result{Call: balancer.Call{Conn: balancer.Bulk}, Took: time.Hour, Answered: true}, took},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(1)
			b.answers(took)
			b.Done(b.eps[0], tc.result)
			assert.InDelta(t, tc.want, known(b.eps[0]), 10)
		})
	}
}

func TestOldEstimatesWeighLess(t *testing.T) {
	b := newBed(1)
	b.answers(100 * ms)
	b.elapsed = memory
	b.answers(10 * ms)
	assert.InDelta(t, 43*ms, known(b.eps[0]), float64(ms), "10 + 90/e")
}

func TestFailingEndpointIsAvoidedUntilItRecovers(t *testing.T) {
	b := newBed(2)
	b.answers(ms, 20*ms)
	require.Equal(t, map[string]int{"0": 1}, b.picks(exploringNothing, b.eps, 1))
	b.Done(b.eps[0], balancer.Result{Took: 1, Failed: true, Err: errors.New("unavailable")})
	require.Equal(t, map[string]int{"1": 10}, b.picks(exploringNothing, b.eps, 10))
	for range 64 {
		b.answers(ms)
	}
	assert.Equal(t, map[string]int{"0": 10}, b.picks(exploringNothing, b.eps, 10))
}

func TestRestoredEndpointIsMeasuredAgain(t *testing.T) {
	b := newBed(2)
	b.answers(ms, 20*ms)
	b.Done(b.eps[0], balancer.Result{Took: time.Second, Failed: true, Err: errors.New("given up")})
	require.Equal(t, map[string]int{"1": 10}, b.picks(exploringNothing, b.eps, 10))
	b.Restored(b.eps[0])
	require.Equal(t, b.eps[0], b.Pick(balancer.Call{}, b.eps))
	b.answers(ms)
	assert.Equal(t, map[string]int{"0": 10}, b.picks(exploringNothing, b.eps, 10))
}

func TestUnmeasuredEndpointIsSlowAfterAnAbandonedCall(t *testing.T) {
	b := newBed(2)
	b.answers(10 * ms)
	b.Done(b.eps[1], balancer.Result{Took: ms, Err: context.Canceled})
	assert.Equal(t, b.eps[0], b.Pick(balancer.Call{}, b.eps))
}

// The nearest endpoint is a learner, which only local calls can use. Calls of one need do not change the
// choice for another.
func TestEachNeedHasItsOwnNearestEndpoint(t *testing.T) {
	b := newBed(3)
	b.answers(ms, 10*ms, 10*ms)
	for range 10 {
		assert.Equal(t, b.eps[0], b.Pick(balancer.Call{Need: balancer.Local, Conn: balancer.Streams}, b.eps))
		assert.Equal(t, b.eps[1], b.Pick(balancer.Call{Conn: balancer.Streams}, b.eps[1:]))
		b.answers(ms, 10*ms, 9*ms) // not enough better to move
	}
}

func TestEndpointsWithoutDistancesTakeTurns(t *testing.T) {
	s := Builder.Build(nil)
	var eps []*balancer.Endpoint
	for i := range 3 {
		eps = append(eps, balancer.Detached(fmt.Sprint(i), nil, nil))
	}
	counts := make(map[string]int)
	for range 30 {
		ep := s.Pick(balancer.Call{}, eps)
		s.(balancer.Learner).Done(ep, balancer.Result{Took: 1, Answered: true})
		counts[ep.Address()]++
	}
	assert.Equal(t, map[string]int{"0": 10, "1": 10, "2": 10}, counts)
	assert.Equal(t, "nearest", Builder.Name)
}

func TestPickComparesAPartOfManyEndpoints(t *testing.T) {
	b := newBed(10*compared + 1)
	for _, ep := range b.eps {
		b.Done(ep, balancer.Result{Took: 10 * ms, Answered: true})
	}
	for range 11 {
		assert.LessOrEqual(t, len(b.part(b.eps)), compared)
	}
	b.picks(exploringNothing, b.eps, 11)
	for _, nearest := range []*balancer.Endpoint{b.eps[10*compared], b.eps[0]} {
		distanceOf(nearest).latency.Store(int64(5 * ms))
		b.picks(exploringNothing, b.eps, 11)
		assert.Equal(t, map[string]int{nearest.Address(): 11}, b.picks(exploringNothing, b.eps, 11))
		distanceOf(nearest).latency.Store(int64(20 * ms))
	}
}

func TestConcurrentPicksAndResults(t *testing.T) {
	b := newBed(3)
	s := build(time.Now)
	latency := map[string]time.Duration{"0": 5 * ms, "1": ms, "2": 10 * ms}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				call := balancer.Call{Need: balancer.Need(i % 2)}
				ep := s.Pick(call, b.eps)
				ep.AddInFlight(1)
				noise := 0.5 + rand.Float64()
				s.Done(ep, balancer.Result{Call: call, Took: time.Duration(noise * float64(latency[ep.Address()])), Answered: true})
				ep.AddInFlight(-1)
			}
		})
	}
	wg.Wait()
	assert.Equal(t, b.eps[1], s.Pick(balancer.Call{Conn: balancer.Streams}, b.eps))
}

func TestPickDoesNotAllocate(t *testing.T) {
	b := newBed(3)
	pickAndEnd := func() {
		b.Done(b.Pick(balancer.Call{}, b.eps), balancer.Result{Took: ms, Answered: true})
	}
	assert.Zero(t, testing.AllocsPerRun(200, pickAndEnd))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
