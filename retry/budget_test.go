package retry

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
