package watches

import (
	"cmp"
	"time"

	"github.com/quorate/quorate/lab/internal/limits"
	"github.com/quorate/quorate/lab/robustness"
)

// Defaults of a Config.
const (
	DefaultWatches = 24
	DefaultWriters = 4

	DefaultSettleTimeout = 30 * time.Second
)

// Limits of a Config.
const (
	maxWatches = 1000
	maxWriters = 100
)

// Config describes a run. Fields that are zero have their default. A run keeps what every reader saw in memory, up to 100 MB
// for each minute with the other defaults.
type Config struct {
	robustness.Config
	// Watches is how many readers watch at a time, at most 1000. Default 24.
	Watches int
	// Writers is how many writers write at a time, at most 100. Default 4.
	Writers int
	// SettleTimeout is how long open watches may take at the end to reach the last
	// revision, after the writers have stopped and all members are well. It takes a
	// client a second or two; what a watch has not delivered by then counts as lost.
	// Default 30 s.
	SettleTimeout time.Duration
	// Connect connects the readers. Default [Quorate].
	Connect func(endpoints []string) (Client, error)
}

// complete returns the configuration with its defaults, or an error that names
// everything that is wrong with it.
func (c Config) complete() (Config, error) {
	c.Watches = cmp.Or(c.Watches, DefaultWatches)
	c.Writers = cmp.Or(c.Writers, DefaultWriters)
	c.SettleTimeout = cmp.Or(c.SettleTimeout, DefaultSettleTimeout)
	if c.Connect == nil {
		c.Connect = Quorate
	}
	var check limits.Check
	c.Complete(&check)
	check.Number("watches", c.Watches, maxWatches)
	check.Number("writers", c.Writers, maxWriters)
	check.That(c.SettleTimeout > 0, "the time to settle must be more than 0; it is %v", c.SettleTimeout)
	return c, check.Err()
}
