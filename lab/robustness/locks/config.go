package locks

import (
	"cmp"
	"context"
	"time"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
)

// Config describes a run. Fields that are zero have their default.
type Config struct {
	robustness.Config
	// Contenders is how many programs contend for the locks, at most 200. Each has a
	// client of its own and a link of its own to every member. Default 16.
	Contenders int
	// Locks is how many there are to contend for, mutexes and elections by turns, at
	// most 100. Default 6.
	Locks int

	// connect connects one contender. Default [quorate.Locker].
	connect func(endpoints []string) (client.Locker, error)
	// settleTimeout is how long every contender may take in the end to take a lock
	// once more, when all members and links are well. Half a second is usual, and a
	// few more where the lease of an abandoned session must expire first; a
	// contender who has none by then counts as stuck. Default 45 s.
	settleTimeout time.Duration
}

const defaultContenders, defaultLocks = 16, 6

// Numbers returns the settings that are numbers.
func (c *Config) Numbers() []robustness.Number {
	return []robustness.Number{
		{Value: &c.Contenders, Name: "contenders", Default: defaultContenders, Max: 200, Usage: "clients that contend for the locks"},
		{Value: &c.Locks, Name: "locks", Default: defaultLocks, Max: 100, Usage: "mutexes and elections, by turns"},
	}
}

// Run takes the history of a run and checks it, see [robustness.Run].
func (c Config) Run(ctx context.Context) (robustness.Outcome, error) {
	if err := c.Complete(c.Numbers()...).Err(); err != nil {
		return robustness.Outcome{}, err
	}
	c.settleTimeout = cmp.Or(c.settleTimeout, 45*time.Second)
	if c.connect == nil {
		c.connect = quorate.Locker
	}
	return robustness.Run(ctx, c.Config, robustness.Setup{Record: true}, c.workload)
}
