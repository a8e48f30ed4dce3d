package retry

import (
	"slices"
	"strings"
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
