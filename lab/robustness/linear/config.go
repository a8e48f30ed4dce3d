package linear

import (
	"context"

	"github.com/quorate/quorate/lab/robustness"
)

// Config describes a run. Fields that are zero have their default.
type Config struct {
	robustness.Config
	// Callers is how many operations are under way at a time, at most 64. Three
	// callers share a client. Default 12.
	Callers int
	// PageDir is where a page is left for each violation, at most ten. It is made if
	// it is needed. Default the current directory.
	PageDir string
	// Idempotent makes the writes of clients idempotent, by clientv3/idempotent.
	Idempotent bool

	// connect connects one client. Default [connect].
	connect func(endpoints []string) (Client, error)
}

// Numbers returns the settings that are numbers.
func (c *Config) Numbers() []robustness.Number {
	return []robustness.Number{{Value: &c.Callers, Name: "callers", Default: 12, Max: 64, Usage: "operations that are under way at a time"}}
}

// Run uses a cluster and checks the history, see [robustness.Run].
func (c Config) Run(ctx context.Context) (robustness.Outcome, error) {
	if err := c.Complete(c.Numbers()...).Err(); err != nil {
		return robustness.Outcome{}, err
	}
	if c.connect == nil {
		c.connect = func(endpoints []string) (Client, error) { return connect(endpoints, c.Idempotent) }
	}
	return robustness.Run(ctx, c.Config, robustness.Setup{Record: true}, c.workload)
}
