package retry

import (
	"math"
	"sync/atomic"
)

// Throttling is gRPC's retryThrottling.
type Throttling struct {
	// MaxTokens is the size of the budget, more than 0 and at most 1000. The
	// default, in [DefaultConfig], is 100: a short disturbance of some fifty
	// failures changes nothing.
	MaxTokens float64
	// TokenRatio is what a success gives back, more than 0. The default is
	// 0.1: attempts that fail more often than one in ten for long are
	// throttled.
	TokenRatio float64
}

// Budget counts failures against successes, for all calls of a client
// together, so that an outage is not a storm. The accounting is that of gRFC
// A6: the budget starts full at MaxTokens, a failed attempt takes one token, a
// success gives TokenRatio back, and while half of the tokens or fewer are
// left the client is throttled.
//
// What throttling does is different. A6 fails a throttled call with its last
// error. Here the call waits, at the maximum backoff ([Policy.Delay]), and is
// tried again: nobody's call fails because other calls did, and an outage still
// costs the cluster no more than about one attempt per waiting call and
// MaxBackoff. For that to be true a caller counts only failures that look like
// an outage, those of calls that have failed on every endpoint, and lets a call
// whose deadline leaves no time for the wait have its ordinary backoff.
//
// Its methods may be called concurrently and do not block. A nil *Budget is
// never throttled.
type Budget struct {
	tokens atomic.Int64 // in millionths of a token
	full   int64
	gain   int64
}

const tokenUnit = 1_000_000

// NewBudget returns a full budget. With MaxTokens of 0 or less it is never
// throttled. Above 1000, gRPC's limit, MaxTokens counts as 1000; a TokenRatio
// that is not positive counts as 0.1.
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

// Success gives TokenRatio tokens back, up to a full budget.
func (b *Budget) Success() {
	if b == nil {
		return
	}
	b.add(b.gain)
}

// Failure takes one token, down to an empty budget.
func (b *Budget) Failure() {
	if b == nil {
		return
	}
	b.add(-tokenUnit)
}

// Take takes one token for an attempt that can be left out, such as a hedge, and
// reports whether there was one. Of a budget that is never throttled there always
// is one.
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

// Throttled reports whether half of the tokens or fewer are left.
func (b *Budget) Throttled() bool {
	return b != nil && b.full > 0 && 2*b.tokens.Load() <= b.full
}

// add changes the tokens within their bounds. At a bound, where a healthy
// client stays, it only reads.
func (b *Budget) add(delta int64) {
	for {
		old := b.tokens.Load()
		next := max(0, min(old+delta, b.full))
		if next == old || b.tokens.CompareAndSwap(old, next) {
			return
		}
	}
}
