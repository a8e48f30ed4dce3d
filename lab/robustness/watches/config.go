package watches

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness"
)

// Config describes a run. Fields that are zero have their default. A run keeps what every reader saw in memory, up to 100 MB
// for each minute with the other defaults.
type Config struct {
	robustness.Config
	// Watches is how many readers watch at a time, at most 1000. Default 24.
	Watches int
	// Writers is how many writers write at a time, at most 100. Default 4.
	Writers int

	// connect connects the readers. Default [connect].
	connect func(endpoints []string) (Client, error)
	// settleTimeout is how long open watches may take at the end to reach the last
	// revision, after the writers have stopped and all members are well. It takes a
	// client a second or two; what a watch has not delivered by then counts as lost.
	// Default defaultSettleTimeout.
	settleTimeout time.Duration
}

const defaultSettleTimeout = 30 * time.Second

// Numbers returns the settings that are numbers.
func (c *Config) Numbers() []robustness.Number {
	return []robustness.Number{
		{Value: &c.Watches, Name: "watches", Default: 24, Max: 1000, Usage: "watches at a time"},
		{Value: &c.Writers, Name: "writers", Default: 4, Max: 100, Usage: "writers at a time"},
	}
}

// setup makes members send bookmarks every second or so and split responses
// above 0.6 MB, which etcd does every ten minutes and above 2 MB.
var setup = robustness.Setup{
	Cluster: lab.Config{Args: []string{"--watch-progress-notify-interval=1s", "--max-request-bytes=65536"}}, Record: true,
}

// Run takes the history of a run and checks it, see [robustness.Run]. It also fails if something was left behind that should have
// ended.
func (c Config) Run(ctx context.Context) (robustness.Outcome, error) {
	if err := c.Complete(c.Numbers()...).Err(); err != nil {
		return robustness.Outcome{}, err
	}
	c.settleTimeout = cmp.Or(c.settleTimeout, defaultSettleTimeout)
	if c.connect == nil {
		c.connect = connect
	}
	already := goleak.IgnoreCurrent()
	result, err := robustness.Run(ctx, c.Config, setup, c.workload)
	return result, errors.Join(err, robustness.Leaked(already))
}
