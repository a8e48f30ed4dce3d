package locks

import (
	"cmp"
	"time"

	"github.com/quorate/quorate/lab/internal/limits"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
)

// Defaults of a Config.
const (
	DefaultContenders = 16
	DefaultLocks      = 6

	DefaultSettleTimeout = 45 * time.Second
)

// Limits of a Config.
const (
	maxContenders = 200
	maxLocks      = 100
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
	// SettleTimeout is how long every contender may take in the end to take a lock
	// once more, when all members and links are well. Half a second is usual, and a
	// few more where the lease of an abandoned session must expire first; a
	// contender who has none by then counts as stuck. Default 45 s.
	SettleTimeout time.Duration
	// Connect connects one contender. Default [quorate.Locker].
	Connect func(endpoints []string) (client.Locker, error)
}

// complete returns the configuration with its defaults, or an error that names
// everything that is wrong with it.
func (c Config) complete() (Config, error) {
	c.Contenders = cmp.Or(c.Contenders, DefaultContenders)
	c.Locks = cmp.Or(c.Locks, DefaultLocks)
	c.SettleTimeout = cmp.Or(c.SettleTimeout, DefaultSettleTimeout)
	if c.Connect == nil {
		c.Connect = quorate.Locker
	}
	var check limits.Check
	c.Complete(&check)
	check.Number("contenders", c.Contenders, maxContenders)
	check.Number("locks", c.Locks, maxLocks)
	check.That(c.SettleTimeout > 0, "the time to settle must be more than 0; it is %v", c.SettleTimeout)
	return c, check.Err()
}
