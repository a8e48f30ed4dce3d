package retry

import (
	"math"
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
