package resolvers

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/lab/internal/limits"
	"github.com/quorate/quorate/lab/robustness"
)

// Defaults of a Config.
const (
	DefaultChannels = 100
	DefaultBound    = time.Second
)

// defaultGiveUpAfter is that of Config.giveUpAfter.
const defaultGiveUpAfter = 30 * time.Second

// maxChannels bounds Config.Channels.
const maxChannels = 1000

// Config describes a run. Fields that are zero have their default.
type Config struct {
	robustness.Config
	// Resolvers are those under test, by name, at the same time. Default all, see [Resolvers].
	Resolvers []string
	// Channels over each resolver, at most 1,000, which share a builder. Default 100.
	Channels int
	// Bound is how long after its source is back, or has changed, a channel may take to have
	// the current list. A resolver that has to wait for longer by its configuration, as DNS for its
	// next lookup, may take that much more. Times in which this process does not run do not count.
	// Default one second.
	Bound time.Duration

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

// complete returns the configuration with its defaults, or an error that names everything that is
// wrong with it.
func (c Config) complete() (Config, error) {
	c.Channels = cmp.Or(c.Channels, DefaultChannels)
	c.Bound = cmp.Or(c.Bound, DefaultBound)
	c.giveUpAfter = cmp.Or(c.giveUpAfter, defaultGiveUpAfter)
	if len(c.Resolvers) == 0 {
		c.Resolvers = Resolvers()
	}
	if c.wrap == nil {
		c.wrap = func(b resolver.Builder, _ func() (resolver.Builder, error)) resolver.Builder { return b }
	}
	var check limits.Check
	c.Complete(&check)
	check.Number("channels", c.Channels, maxChannels)
	check.That(c.Bound > 0, "the bound must be more than 0; it is %v", c.Bound)
	for i, name := range c.Resolvers {
		check.That(slices.Contains(Resolvers(), name), "unknown resolver %q: the resolvers are %q", name, Resolvers())
		check.That(!slices.Contains(c.Resolvers[:i], name), "the resolver %q is named twice", name)
	}
	return c, check.Err()
}
