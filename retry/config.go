package retry

import (
	"math"
	"slices"
	"strings"
	"sync/atomic"
)

// Config is the part of a gRPC service config that this package reads: the
// policies of each method, and the throttling of the whole client.
type Config struct {
	// Default is the policy of the methods that have none of their own.
	Default Policy
	// Throttling configures the client's [Budget].
	Throttling Throttling

	// Hedging is the hedging policy of the methods that have none of their own.
	Hedging HedgingPolicy
	// HedgingThrottling configures the budget for hedges, see [Budget]: a read earns
	// TokenRatio tokens and a hedge takes one. A hedge that wins returns its token; one
	// that loses halves the remaining tokens. The default, in [DefaultConfig], is 100 and
	// 0.05: in the long run one hedge for twenty reads. Until an outage of one member of
	// three is detected, a third of the reads are to be hedged; 100 tokens suffice for
	// the 150 ms that detection takes at two thousand reads per second.
	HedgingThrottling Throttling

	// byName holds the policies by "service/method" and, for a whole service,
	// "service/".
	byName map[string]policies
}

// policies are those of one methodConfig.
type policies struct {
	retry   Policy
	hedging HedgingPolicy
}

const maxTokensLimit = 1000

var (
	defaultThrottling        = Throttling{MaxTokens: 10, TokenRatio: 0.1}
	defaultHedgingThrottling = Throttling{MaxTokens: 100, TokenRatio: 0.05}
)

// DefaultConfig returns the default configuration: the default of every field of [Policy]
// and [Throttling].
func DefaultConfig() *Config {
	return &Config{
		Default:           clonePolicy(defaultPolicy),
		Throttling:        defaultThrottling,
		HedgingThrottling: defaultHedgingThrottling,
	}
}

// PolicyFor returns the policy for a full method, "/package.Service/Method":
// that of the exact method, or else of its service, or else the default, which
// is gRPC's order. Of a nil Config it returns the built-in default.
func (c *Config) PolicyFor(method string) Policy {
	return c.policies(method).retry
}

// HedgingFor returns the hedging policy for a full method, as [Config.PolicyFor]
// does the retry policy.
func (c *Config) HedgingFor(method string) HedgingPolicy {
	return c.policies(method).hedging
}

func (c *Config) policies(method string) policies {
	if c == nil {
		return policies{retry: clonePolicy(defaultPolicy)}
	}
	name := strings.TrimPrefix(method, "/")
	for _, named := range []string{name, name[:strings.LastIndexByte(name, '/')+1]} {
		if p, ok := c.byName[named]; ok {
			return p
		}
	}
	return policies{c.Default, c.Hedging}
}

func clonePolicy(p Policy) Policy {
	p.RetryableStatusCodes = slices.Clone(p.RetryableStatusCodes)
	return p
}

// DisableHedging switches hedging off for all methods.
func (c *Config) DisableHedging() {
	c.Hedging.MaxAttempts = 1
	for name, p := range c.byName {
		p.hedging.MaxAttempts = 1
		c.byName[name] = p
	}
}

// Override applies change to every retry policy of the configuration. A client uses it to
// give its own settings precedence over a service config.
func (c *Config) Override(change func(*Policy)) {
	change(&c.Default)
	for name, p := range c.byName {
		change(&p.retry)
		c.byName[name] = p
	}
}

// Throttling is gRPC's retryThrottling.
type Throttling struct {
	// MaxTokens is the size of the budget, more than 0 and at most 1000. The default for
	// retries, in [DefaultConfig], is 10, as in the examples of gRFC A6.
	MaxTokens float64
	// TokenRatio is how many tokens a call earns, more than 0. The default for retries is
	// 0.1: while etcd is overloaded there are at most 1.1 attempts per call.
	TokenRatio float64
}

// Budget bounds the additional attempts of all calls of a client, so that an outage
// causes no retry storm. It starts full at MaxTokens; each call earns TokenRatio, and
// each additional attempt takes one token.
//
// gRFC A6, which defines the parameters, fails a call when the budget is used up. Here the
// call waits until the budget has a token, an endpoint recovers, or its time is over. Two
// kinds of attempts are free, because they add no load: those after an attempt that was
// not sent, and the first of each call after its connection was lost.
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

// Deposit adds the TokenRatio tokens of one call, up to a full budget.
func (b *Budget) Deposit() {
	if b != nil && b.tokens.Load() < b.full {
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

// Refund returns a token, after a useful attempt.
func (b *Budget) Refund() {
	if b != nil {
		b.add(tokenUnit)
	}
}

// Left returns the current and the maximum number of tokens. Both are 0 for an unlimited
// budget.
func (b *Budget) Left() (left, limit float64) {
	if b == nil {
		return 0, 0
	}
	return float64(b.tokens.Load()) / tokenUnit, float64(b.full) / tokenUnit
}

// Halve removes half of the tokens, after a useless attempt: others may be useless too.
func (b *Budget) Halve() {
	if b != nil {
		b.add(-b.tokens.Load() / 2)
	}
}

// add changes the tokens within their bounds. At a bound, which is the normal case of a
// healthy client, it only reads.
func (b *Budget) add(delta int64) {
	for {
		old := b.tokens.Load()
		next := max(0, min(old+delta, b.full))
		if next == old || b.tokens.CompareAndSwap(old, next) {
			return
		}
	}
}
