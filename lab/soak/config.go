package soak

import (
	"cmp"
	"io"
	"time"

	"github.com/quorate/quorate/lab/internal/limits"
)

// Defaults of a Config.
const (
	DefaultDuration = time.Minute
	DefaultMembers  = 3
	DefaultWatches  = 24
	DefaultWriters  = 4

	DefaultSettleTimeout = 30 * time.Second
)

// Limits of a Config.
const (
	maxWatches = 1000
	maxWriters = 100
)

// Config describes a run. Fields that are zero have their default.
type Config struct {
	// Duration is how long faults are injected, at most an hour. What a run needs
	// beside that, to start and to settle at the end, is some ten seconds. A run
	// keeps what every reader saw in memory, up to 100 MB for each minute with the
	// other defaults. Default one minute.
	Duration time.Duration
	// Members of the cluster, 3 to 9. Default 3.
	Members int
	// Watches is how many readers watch at a time, at most 1000. Default 24.
	Watches int
	// Writers is how many writers write at a time, at most 100. Default 4.
	Writers int
	// SettleTimeout is how long open watches may take at the end to reach the last
	// revision, after the writers have stopped and all members are well. It takes a
	// client a second or two; what a watch has not delivered by then counts as lost.
	// Default 30 s.
	SettleTimeout time.Duration
	// Seed of every choice: faults, keys, kinds of watches. Two runs of a seed
	// choose alike and still differ, because time is real.
	Seed uint64
	// Dir is where the cluster keeps its files while it runs. Default os.TempDir().
	Dir string
	// Connect connects the readers. Default [Quorate].
	Connect func(endpoints []string) (Client, error)
	// Log, if set, is told in lines what is being done to the cluster.
	Log io.Writer
}

// complete returns the configuration with its defaults, or an error that names
// everything that is wrong with it.
func (c Config) complete() (Config, error) {
	c.Duration = cmp.Or(c.Duration, DefaultDuration)
	c.Members = cmp.Or(c.Members, DefaultMembers)
	c.Watches = cmp.Or(c.Watches, DefaultWatches)
	c.Writers = cmp.Or(c.Writers, DefaultWriters)
	c.SettleTimeout = cmp.Or(c.SettleTimeout, DefaultSettleTimeout)
	if c.Connect == nil {
		c.Connect = Quorate
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	var check limits.Check
	check.Members(c.Members)
	check.Duration(c.Duration)
	check.Number("watches", c.Watches, maxWatches)
	check.Number("writers", c.Writers, maxWriters)
	check.That(c.SettleTimeout > 0, "the time to settle must be more than 0; it is %v", c.SettleTimeout)
	return c, check.Err()
}
