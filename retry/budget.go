package retry

import (
	"math"
	"sync/atomic"
)

// Throttling is gRPC's retryThrottling.
type Throttling struct {
	// MaxTokens is the size of the budget, more than 0 and at most 1000. The default for
	// retries, in [DefaultConfig], is 10, as in the examples of gRFC A6.
	MaxTokens float64
	// TokenRatio is what a call earns, more than 0. The default for retries is 0.1: in
	// sustained overload there are at most 1.1 attempts a call.
	TokenRatio float64
}

// Budget bounds the additional attempts of all calls of a client together, so that an
// outage is no storm. It starts full at MaxTokens; each call earns TokenRatio, and each
// additional attempt takes one token.
//
// gRFC A6, which defines the parameters, fails a call when the budget is used up. Here the
// call waits: until the budget pays, until an endpoint is seen to recover, or until its
// time is over. Two kinds of attempts are free, because they are no load: those after one
// that never left, and the first of each call after its connection was lost.
//
// Its methods may be called concurrently and do not block. A nil *Budget is never used up.
type Budget struct {
	tokens atomic.Int64 // in millionths of a token
	full   int64        // 0 for a budget without a bound
	gain   int64
}

const tokenUnit = 1_000_000

// NewBudget returns a full budget. With MaxTokens of 0 or less it is never used up. Above
// 1000, gRPC's limit, MaxTokens counts as 1000; a TokenRatio that is not positive counts as
// 0.1.
func NewBudget(t Throttling) *Budget {
	b := &Budget{}
	if !(t.MaxTokens > 0) {
		return b
	}
	ratio := t.TokenRatio
	if !(ratio > 0) {
		ratio = defaultThrottling.TokenRatio
	}
	maxTokens := min(t.MaxTokens, maxTokensLimit)
	b.full = int64(math.Ceil(maxTokens * tokenUnit))
	b.gain = int64(math.Ceil(min(ratio, maxTokens) * tokenUnit))
	b.tokens.Store(b.full)
	return b
}

// Deposit notes a call, which gives TokenRatio tokens, up to a full budget.
func (b *Budget) Deposit() {
	if b != nil {
		b.add(b.gain)
	}
}

// Take takes one token for an additional attempt, and reports whether there was one.
func (b *Budget) Take() bool {
	if b == nil || b.full == 0 {
		return true
	}
	for {
		old := b.tokens.Load()
		if old < tokenUnit {
			return false
		}
		if b.tokens.CompareAndSwap(old, old-tokenUnit) {
			return true
		}
	}
}

// Refund gives a token back: the attempt was worth it.
func (b *Budget) Refund() {
	if b != nil {
		b.add(tokenUnit)
	}
}

// Left returns how many additional attempts the budget pays for now, and how many it pays for
// at most. Both are 0 for a budget that is never used up.
func (b *Budget) Left() (left, limit float64) {
	if b == nil {
		return 0, 0
	}
	return float64(b.tokens.Load()) / tokenUnit, float64(b.full) / tokenUnit
}

// Halve takes half of what is left: the attempt was of no use, so others may be as well.
func (b *Budget) Halve() {
	if b != nil {
		b.add(-b.tokens.Load() / 2)
	}
}

// add changes the tokens within their bounds. At a bound, where a healthy client stays, it
// only reads.
func (b *Budget) add(delta int64) {
	for {
		old := b.tokens.Load()
		next := max(0, min(old+delta, b.full))
		if next == old || b.tokens.CompareAndSwap(old, next) {
			return
		}
	}
}
