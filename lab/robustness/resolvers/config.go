package resolvers

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/lab/robustness"
)

// Config describes a run. Fields that are zero have their default.
type Config struct {
	robustness.Config
	// Resolvers are those under test, by name, at the same time. Default all, see [Resolvers].
	Resolvers []string
	// Channels over each resolver, at most 1,000, which share a builder. Default 100.
	Channels int

	// bound is how long after its source is back, or has changed, a channel may take to have
	// the current list. A resolver that has to wait for longer by its configuration, as DNS for its
	// next lookup, may take that much more. Times in which this process does not run do not count.
	// Default one second.
	bound time.Duration
	// wrap and noRemovalDelay make resolvers break promises, in tests. another returns a new builder.
	wrap           func(b resolver.Builder, another func() (resolver.Builder, error)) resolver.Builder
	noRemovalDelay bool // without MassRemovalDelay
	// only is the name of the faults that are injected. Default all.
	only string
	// giveUpAfter is how long after a change channels are waited for. Default 30 s.
	giveUpAfter time.Duration
}

// Resolvers returns the names of all resolvers.
func Resolvers() []string { return []string{"dns", "etcd", "kubernetes", "static"} }

// Numbers returns the settings that are numbers.
func (c *Config) Numbers() []robustness.Number {
	return []robustness.Number{{Value: &c.Channels, Name: "channels", Default: 100, Max: 1000, Usage: "channels over each resolver"}}
}

// Run takes the channels of each resolver through faults of its source, see [robustness.Run].
func (c Config) Run(ctx context.Context) (robustness.Outcome, error) {
	before := goleak.IgnoreCurrent()
	result, err := c.run(ctx)
	if err == nil && result.Checked() {
		if left := robustness.Leaked(before); left != nil {
			result.Verdict.Add(Clean, "%v", left)
		}
	}
	return result, err
}

// run runs without a look at what is left.
func (c Config) run(ctx context.Context) (robustness.Outcome, error) {
	check := c.Complete(c.Numbers()...)
	c.bound = cmp.Or(c.bound, time.Second)
	c.giveUpAfter = cmp.Or(c.giveUpAfter, 30*time.Second)
	if len(c.Resolvers) == 0 {
		c.Resolvers = Resolvers()
	}
	if c.wrap == nil {
		c.wrap = func(b resolver.Builder, _ func() (resolver.Builder, error)) resolver.Builder { return b }
	}
	for i, name := range c.Resolvers {
		check.That(slices.Contains(Resolvers(), name), "unknown resolver %q: the resolvers are %q", name, Resolvers())
		check.That(!slices.Contains(c.Resolvers[:i], name), "the resolver %q is named twice", name)
	}
	if err := check.Err(); err != nil {
		return robustness.Outcome{}, err
	}
	return robustness.Run(ctx, c.Config, robustness.Setup{}, c.workload)
}
