package linear

import (
	"cmp"
	"time"

	"github.com/quorate/quorate/lab/internal/limits"
	"github.com/quorate/quorate/lab/robustness"
)

// Defaults of a Config.
const (
	DefaultCallers = 12

	DefaultCheckTimeout = 30 * time.Second
)

// Limits of a Config.
const (
	maxCallers = 64
)

// Config describes a run. Fields that are zero have their default.
type Config struct {
	robustness.Config
	// Callers is how many operations are under way at a time, at most 64. Three
	// callers share a client. Default 12.
	Callers int
	// CheckTimeout bounds the check of one history. One that is not decided by then
	// counts as a violation. A few milliseconds are usual. Default 30 s.
	CheckTimeout time.Duration
	// PageDir is where a page is left for each violation, at most ten. It is made if
	// it is needed. Default the current directory.
	PageDir string
	// Idempotent makes the writes of clients idempotent, by clientv3/idempotent. Their lanes take revisions, so revisions
	// are not accounted for.
	Idempotent bool
	// Connect connects one client. Default [Quorate].
	Connect func(endpoints []string) (Client, error)
}

// complete returns the configuration with its defaults, or an error that names
// everything that is wrong with it.
func (c Config) complete() (Config, error) {
	c.Callers = cmp.Or(c.Callers, DefaultCallers)
	c.CheckTimeout = cmp.Or(c.CheckTimeout, DefaultCheckTimeout)
	switch {
	case c.Connect != nil:
	case c.Idempotent:
		c.Connect = Idempotent
	default:
		c.Connect = Quorate
	}
	var check limits.Check
	c.Complete(&check)
	check.Number("callers", c.Callers, maxCallers)
	check.That(c.CheckTimeout > 0, "the time for a check must be more than 0; it is %v", c.CheckTimeout)
	return c, check.Err()
}
