package linear

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
	DefaultCallers  = 12

	DefaultCheckTimeout = 30 * time.Second
)

// Limits of a Config.
const (
	maxCallers = 64
)

// Config describes a run. Fields that are zero have their default.
type Config struct {
	// Duration is how long faults are injected, at most an hour. What a run needs
	// beside that, to start and to check what is left, is some ten seconds. Default
	// one minute.
	Duration time.Duration
	// Members of the cluster, 3 to 9. Default 3.
	Members int
	// Callers is how many operations are under way at a time, at most 64. Three
	// callers share a client. Default 12.
	Callers int
	// CheckTimeout bounds the check of one history. One that is not decided by then
	// counts as a violation. A few milliseconds are usual. Default 30 s.
	CheckTimeout time.Duration
	// Seed of every choice: faults, keys, operations. Two runs of a seed choose alike
	// and still differ, because time is real.
	Seed uint64
	// Dir is where the cluster keeps its files while it runs. Default os.TempDir().
	Dir string
	// PageDir is where a page is left for each violation, at most ten. It is made if
	// it is needed. Default the current directory.
	PageDir string
	// Connect connects one client. Default [Quorate].
	Connect func(endpoints []string) (Client, error)
	// Log, if set, is told in lines what is being done to the cluster, and every ten
	// seconds how the run stands.
	Log io.Writer
}

// complete returns the configuration with its defaults, or an error that names
// everything that is wrong with it.
func (c Config) complete() (Config, error) {
	c.Duration = cmp.Or(c.Duration, DefaultDuration)
	c.Members = cmp.Or(c.Members, DefaultMembers)
	c.Callers = cmp.Or(c.Callers, DefaultCallers)
	c.CheckTimeout = cmp.Or(c.CheckTimeout, DefaultCheckTimeout)
	if c.Connect == nil {
		c.Connect = Quorate
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	var check limits.Check
	check.Members(c.Members)
	check.Duration(c.Duration)
	check.Number("callers", c.Callers, maxCallers)
	check.That(c.CheckTimeout > 0, "the time for a check must be more than 0; it is %v", c.CheckTimeout)
	return c, check.Err()
}
