package retry

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
)

// drawDelays returns the smallest, the largest and the mean of many delays.
func drawDelays(p Policy, retry int) (lowest, highest, mean time.Duration) {
	const draws = 20_000
	lowest = math.MaxInt64
	var sum float64
	for range draws {
		d := p.Delay(retry)
		lowest, highest = min(lowest, d), max(highest, d)
		sum += float64(d)
	}
	return lowest, highest, time.Duration(sum / draws)
}

// The bounds below are exact. The means may be off by 3 % of the interval's
// width, more than ten standard errors of 20,000 uniform draws.
func TestDelay(t *testing.T) {
	ms := time.Millisecond
	base := Policy{InitialBackoff: 100 * ms, MaxBackoff: 1000 * ms, BackoffMultiplier: 2}
	fixed := base
	fixed.Jitter = 0.2
	wide := base
	wide.Jitter = 7
	for _, tc := range []struct {
		name      string
		policy    Policy
		retry     int
		low, high time.Duration
	}{
		{"first", base, 1, 0, 100 * ms},
		{"below the first", base, -3, 0, 100 * ms},
		{"second", base, 2, 0, 200 * ms},
		{"fourth", base, 4, 0, 800 * ms},
		{"capped", base, 5, 0, 1000 * ms},
		{"far", base, math.MaxInt, 0, 1000 * ms},
		{"fraction", fixed, 2, 160 * ms, 240 * ms},
		{"fraction capped", fixed, 50, 800 * ms, 1200 * ms},
		{"fraction above one", wide, 1, 0, 200 * ms},
		{"defaults", Policy{}, 1, 0, 10 * ms},
		{"defaults capped", Policy{}, 8, 0, 1000 * ms},
		{"shrinking", Policy{InitialBackoff: 100 * ms, BackoffMultiplier: 0.5}, 2, 0, 50 * ms},
		{"shrunk to nothing", Policy{BackoffMultiplier: 0.5}, math.MaxInt, 0, 0},
		{"initial above the maximum", Policy{InitialBackoff: 5000 * ms}, 1, 0, 1000 * ms},
		{"impossible multiplier", Policy{BackoffMultiplier: math.NaN()}, 1000, 0, 1000 * ms},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lowest, highest, mean := drawDelays(tc.policy, tc.retry)
			width := tc.high - tc.low
			assert.GreaterOrEqual(t, lowest, tc.low)
			assert.LessOrEqual(t, highest, tc.high)
			assert.InDelta(t, tc.low+width/2, mean, 0.03*float64(width)+1)
			assert.LessOrEqual(t, lowest, tc.low+width/20, "the delays do not reach down")
			assert.GreaterOrEqual(t, highest, tc.high-width/20, "the delays do not reach up")
		})
	}
}

func TestDelayOfTheLongestBackoffDoesNotOverflow(t *testing.T) {
	p := Policy{InitialBackoff: math.MaxInt64, MaxBackoff: math.MaxInt64, Jitter: 1, BackoffMultiplier: math.MaxFloat64}
	for retry := range 100 {
		assert.GreaterOrEqual(t, p.Delay(retry), time.Duration(0))
	}
}

func TestRetryable(t *testing.T) {
	byDefault := map[codes.Code]bool{codes.Unavailable: true, codes.Canceled: true, codes.DeadlineExceeded: true}
	for c := codes.OK; c <= codes.Unauthenticated+1; c++ {
		assert.Equal(t, byDefault[c], Policy{}.Retryable(c), c)
		assert.Equal(t, byDefault[c], DefaultConfig().Default.Retryable(c), c)
		assert.False(t, Policy{RetryableStatusCodes: []codes.Code{}}.Retryable(c), c)
		assert.Equal(t, c == codes.Aborted, Policy{RetryableStatusCodes: []codes.Code{codes.Aborted}}.Retryable(c), c)
	}
}

// taken takes tokens until there is none, and returns how many there were.
func taken(b *Budget) (n int) {
	for n < 5000 && b.Take() {
		n++
	}
	return n
}

func TestBudgetEarnsAFractionOfEachCall(t *testing.T) {
	b := NewBudget(Throttling{MaxTokens: 10, TokenRatio: 0.1})
	assert.Equal(t, 10, taken(b))
	for range 35 {
		b.Deposit()
	}
	assert.Equal(t, 3, taken(b))
}

func TestBudgetStaysWithinItsBounds(t *testing.T) {
	b := NewBudget(Throttling{MaxTokens: 10, TokenRatio: 0.5})
	for range 1000 {
		b.Deposit()
	}
	b.Refund()
	assert.Equal(t, 10, taken(b))
	b.Halve()
	b.Halve()
	b.Refund()
	assert.Equal(t, 1, taken(b))
}

func TestHalveTakesHalfOfWhatIsLeft(t *testing.T) {
	b := NewBudget(Throttling{MaxTokens: 100})
	for _, left := range []int{50, 25, 12, 6, 3, 1, 0} {
		b.Halve()
		assert.Equal(t, left, int(b.tokens.Load()/tokenUnit))
	}
}

func TestBudgetOfUnusualThrottling(t *testing.T) {
	for _, tc := range []struct {
		name   string
		t      Throttling
		tokens int // 5000 for no bound
	}{
		{"none", Throttling{}, 5000},
		{"negative", Throttling{MaxTokens: -1, TokenRatio: 1}, 5000},
		{"not a number", Throttling{MaxTokens: math.NaN()}, 5000},
		{"less than a token", Throttling{MaxTokens: 0.5, TokenRatio: 1}, 0},
		{"endless", Throttling{MaxTokens: math.Inf(1), TokenRatio: math.Inf(1)}, 1000},
		{"no ratio", Throttling{MaxTokens: 4}, 4},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, tc.tokens, taken(NewBudget(tc.t))) })
	}
}

func TestNilBudgetIsNeverUsedUp(t *testing.T) {
	var b *Budget
	b.Deposit()
	b.Refund()
	b.Halve()
	assert.True(t, b.Take())
}

func TestBudgetCountsConcurrentCalls(t *testing.T) {
	b := NewBudget(Throttling{MaxTokens: 1000, TokenRatio: 0.25})
	b.Halve()
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 5000 { // takes two tokens, and gives two back
				b.Take()
				b.Take()
				b.Refund()
				for range 4 {
					b.Deposit()
				}
			}
		})
	}
	calls.Wait()
	assert.Equal(t, int64(500*tokenUnit), b.tokens.Load())
}

// However many take at the same time, no more is taken than there is.
func TestConcurrentTakesOfTheLastToken(t *testing.T) {
	b := NewBudget(Throttling{MaxTokens: 1})
	var taken, most atomic.Int32
	var takers sync.WaitGroup
	for range 8 {
		takers.Go(func() {
			for range 5000 {
				if b.Take() {
					if n := taken.Add(1); n > 1 {
						most.Store(n)
					}
					taken.Add(-1)
					b.Refund()
				}
			}
		})
	}
	takers.Wait()
	assert.Zero(t, most.Load(), "more than one at a time")
	assert.Equal(t, int64(tokenUnit), b.tokens.Load())
}
