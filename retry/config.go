package retry

import (
	"slices"
	"strings"
)

// Config is the part of a gRPC service config that this package reads: a
// policy per method, and the throttling of the whole client.
type Config struct {
	// Default is the policy of the methods that have none of their own.
	Default Policy
	// Throttling is what to make the client's [Budget] of.
	Throttling Throttling

	// byName holds the policies by "service/method" and, for a whole service,
	// "service/".
	byName map[string]Policy
}

const maxTokensLimit = 1000

var defaultThrottling = Throttling{MaxTokens: 100, TokenRatio: 0.1}

// DefaultConfig returns the configuration in force when none is given: the
// default of every field of [Policy] and [Throttling].
func DefaultConfig() *Config {
	return &Config{Default: clonePolicy(defaultPolicy), Throttling: defaultThrottling}
}

// PolicyFor returns the policy for a full method, "/package.Service/Method":
// that of the exact method, or else of its service, or else the default, which
// is gRPC's order. Of a nil Config it returns the built-in default.
func (c *Config) PolicyFor(method string) Policy {
	if c == nil {
		return clonePolicy(defaultPolicy)
	}
	name := strings.TrimPrefix(method, "/")
	if p, ok := c.byName[name]; ok {
		return p
	}
	if slash := strings.LastIndexByte(name, '/'); slash >= 0 {
		if p, ok := c.byName[name[:slash+1]]; ok {
			return p
		}
	}
	return c.Default
}

func clonePolicy(p Policy) Policy {
	p.RetryableStatusCodes = slices.Clone(p.RetryableStatusCodes)
	return p
}

// Override applies change to every policy of the configuration. Where it has
// fields of its own for the same purpose, a client overrides with it what a
// service config says.
func (c *Config) Override(change func(*Policy)) {
	change(&c.Default)
	for name, p := range c.byName {
		change(&p)
		c.byName[name] = p
	}
}
