package retry

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func failures(b *Budget, n int) {
	for range n {
		b.Failure()
	}
}

func successes(b *Budget, n int) {
	for range n {
		b.Success()
	}
}

func TestBudgetThrottlesAtHalf(t *testing.T) {
	b := NewBudget(Throttling{MaxTokens: 10, TokenRatio: 0.1})
	failures(b, 4)
	assert.False(t, b.Throttled(), "6 of 10 tokens left")
	failures(b, 1)
	assert.True(t, b.Throttled(), "5 of 10 tokens left")
	successes(b, 1)
	assert.False(t, b.Throttled(), "5.1 of 10 tokens left")
}

func TestBudgetStaysWithinItsBounds(t *testing.T) {
	b := NewBudget(Throttling{MaxTokens: 10, TokenRatio: 0.5})
	successes(b, 1000)
	failures(b, 5)
	assert.True(t, b.Throttled(), "successes must not fill it above 10 tokens")
	failures(b, 1000)
	successes(b, 10)
	assert.True(t, b.Throttled(), "5 tokens")
	successes(b, 1)
	assert.False(t, b.Throttled(), "5.5 tokens: failures must not take it below 0")
}

func TestBudgetOfUnusualThrottling(t *testing.T) {
	for _, tc := range []struct {
		name string
		t    Throttling
		left int // failures that do not throttle, -1 if none does
	}{
		{"none", Throttling{}, -1},
		{"negative", Throttling{MaxTokens: -1, TokenRatio: 1}, -1},
		{"not a number", Throttling{MaxTokens: math.NaN()}, -1},
		{"less than a token", Throttling{MaxTokens: 0.5, TokenRatio: 1}, 0},
		{"endless", Throttling{MaxTokens: math.Inf(1), TokenRatio: math.Inf(1)}, 499},
		{"no ratio", Throttling{MaxTokens: 4}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := NewBudget(tc.t)
			if tc.left < 0 {
				failures(b, 5000)
				assert.False(t, b.Throttled())
				return
			}
			failures(b, tc.left)
			assert.False(t, b.Throttled())
			failures(b, 1)
			assert.True(t, b.Throttled())
		})
	}
}

func TestNilBudget(t *testing.T) {
	var b *Budget
	b.Success()
	b.Failure()
	assert.False(t, b.Throttled())
}

func TestBudgetCountsConcurrentCalls(t *testing.T) {
	b := NewBudget(Throttling{MaxTokens: 1000, TokenRatio: 0.25})
	failures(b, 600)
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 50 { // takes 8*50 tokens, gives 8*150*0.25 back
				b.Failure()
				successes(b, 3)
			}
		})
	}
	calls.Wait()
	assert.Equal(t, int64(300*tokenUnit), b.tokens.Load())
	assert.True(t, b.Throttled())
}

func BenchmarkBudget(b *testing.B) {
	budget := NewBudget(defaultThrottling)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			budget.Success()
			budget.Throttled()
		}
	})
}
