package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

// Defaults of a Config.
const (
	DefaultMaxAttempts = 10
	DefaultMinBackoff  = time.Second
	DefaultMaxBackoff  = 5 * time.Minute
)

// Config configures a [Queue]. Name is required; a zero field has its default.
type Config struct {
	// Name is what all keys of the queue begin with, before a slash. No name may be below another's.
	Name string

	// MaxAttempts is how often a job is handled at most before it is a dead letter. The default is 10.
	MaxAttempts int
	// MinBackoff and MaxBackoff bound the time before a job is handled again: between half and all
	// of MinBackoff after the first attempt, and twice as long after each further one, up to
	// MaxBackoff. After the loss of a process, each other one counts it from when it learns of the loss. The defaults are
	// 1 s and 5 min. The processes that work decide: give them the same configuration.
	MinBackoff, MaxBackoff time.Duration

	// TTL is how long the claims of a process that died stay, and Margin how long before that the
	// contexts of its handlers end: see leaderelection.Config. The defaults are 15 s and a fifth of
	// the TTL.
	TTL, Margin time.Duration
	// Worker is what [Status] calls the process. The default is the host name, a slash and the process id.
	Worker string
}

func (c Config) complete() (Config, error) {
	c.MaxAttempts = cmp.Or(c.MaxAttempts, DefaultMaxAttempts)
	c.MinBackoff = cmp.Or(c.MinBackoff, DefaultMinBackoff)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, max(DefaultMaxBackoff, c.MinBackoff))
	if c.Worker == "" {
		host, _ := os.Hostname() // "" if it has none
		c.Worker = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	switch {
	case strings.Trim(c.Name, "/") == "":
		return c, errors.New("jobs: Config.Name is empty: name the queue")
	case c.MaxAttempts < 0:
		return c, fmt.Errorf("jobs: Config.MaxAttempts is %d: leave it out for %d, or set at least 1", c.MaxAttempts, DefaultMaxAttempts)
	case c.MinBackoff < 0 || c.MaxBackoff < c.MinBackoff:
		return c, fmt.Errorf("jobs: Config.MinBackoff is %v and MaxBackoff %v: set positive durations, the second no shorter than the first",
			c.MinBackoff, c.MaxBackoff)
	}
	return c, nil
}

// backoff returns the time before the next attempt, after that many.
func (c Config) backoff(attempts int) time.Duration {
	bound := c.MinBackoff
	for i := 1; i < attempts && bound < c.MaxBackoff; i++ {
		bound += min(bound, c.MaxBackoff-bound) // does not overflow
	}
	half := bound / 2
	return half + rand.N(half+1)
}
