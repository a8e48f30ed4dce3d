package locks

import (
	"cmp"
	"io"
	"time"

	"github.com/quorate/quorate/lab/internal/limits"
)

// Defaults of a Config.
const (
	DefaultDuration   = time.Minute
	DefaultMembers    = 3
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
	// Duration is how long faults are injected, at most an hour. What a run needs
	// beside that, to start and to settle at the end, is some twenty seconds. Default
	// one minute.
	Duration time.Duration
	// Members of the cluster, 3 to 9. Default 3.
	Members int
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
	// Seed of every choice: faults, locks, what holders do. Two runs of a seed choose
	// alike and still differ, because time is real.
	Seed uint64
	// Dir is where the cluster keeps its files while it runs. Default os.TempDir().
	Dir string
	// Connect connects one contender. Default [Quorate].
	Connect func(endpoints []string) (Client, error)
	// Log, if set, is told in lines what is being done to the cluster.
	Log io.Writer
}

// complete returns the configuration with its defaults, or an error that names
// everything that is wrong with it.
func (c Config) complete() (Config, error) {
	c.Duration = cmp.Or(c.Duration, DefaultDuration)
	c.Members = cmp.Or(c.Members, DefaultMembers)
	c.Contenders = cmp.Or(c.Contenders, DefaultContenders)
	c.Locks = cmp.Or(c.Locks, DefaultLocks)
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
	check.Number("contenders", c.Contenders, maxContenders)
	check.Number("locks", c.Locks, maxLocks)
	check.That(c.SettleTimeout > 0, "the time to settle must be more than 0; it is %v", c.SettleTimeout)
	return c, check.Err()
}
