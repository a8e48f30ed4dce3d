package leaderelection

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/quorate/quorate/clientv3"
)

// Defaults of a Config.
const (
	DefaultTTL           = 15 * time.Second
	DefaultResignTimeout = 3 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// marginOfTTL is the part of the TTL that is the default margin.
const marginOfTTL = 5

// Config says which key Run holds, and how. The zero value of every field but Name is usable.
type Config struct {
	// Name names the election, lock or semaphore. A candidate's key is Name, a slash and its
	// lease in hexadecimal, as those of concurrency.Election, Mutex and Semaphore. No other key or
	// name may be below it: a key is taken for a candidate's. Required.
	Name string
	// Value is the value of the candidate's key, which tells others who holds it. The default
	// is the host name, a slash and the process id.
	Value string
	// Holders is how many may hold the key at a time; all processes must say the same. The
	// default, 1, is an election or a lock.
	Holders int

	// TTL is how long the key of a process that died stays: the TTL of the lease, rounded up to
	// whole seconds. Renewals are sent each third of it. The default is 15 s, the least 1 s;
	// etcd raises a TTL below about 2 s to that.
	TTL time.Duration
	// Margin is how long before the lease may expire a term ends whose lease could not be renewed.
	// It is the time for the function to return, and for clocks that run at different rates. A
	// term ends TTL - Margin after the last answered renewal was sent. The default is a fifth of
	// the TTL. It must be below two thirds of the TTL.
	Margin time.Duration
	// ResignTimeout bounds how long Run tries to revoke its lease when a term or a candidacy has
	// ended. If the cluster does not answer, the lease expires by itself. The default is 3 s, or
	// the TTL if shorter.
	ResignTimeout time.Duration

	// ReturnOnLoss makes Run return when a term is lost. Otherwise it campaigns again.
	ReturnOnLoss bool
	// RetryPeriod bounds the random pause before the next campaign, after a loss or a failure. It
	// doubles with each failure in a row, up to 8 times. The default is 2 s.
	RetryPeriod time.Duration

	// Hooks are called when the state changes.
	Hooks Hooks
	// Metrics, if it is not nil, counts the terms.
	Metrics *Metrics
}

// Hooks are functions that Run calls; nil ones are not called. They must return at once.
type Hooks struct {
	// StartedLeading is called when a term has begun, before the function.
	StartedLeading func(*Term)
	// StoppedLeading is called after each StartedLeading, when the function has returned or
	// panicked and before Run resigns. loss is nil, or why the term was lost before.
	StoppedLeading func(term *Term, loss error)
	// NewLeader is called for the leader at first, and for every new leader and new value. Some
	// that were soon replaced may be left out. It is called by a goroutine of its own until Run
	// returns, and costs a watch. It needs Holders of 1.
	NewLeader func(Leader)
}

// Leader is who holds the key of an election.
type Leader struct {
	// Value is the value of its key, see [Config.Value].
	Value string
	// Key is its key, and Revision the revision that created it.
	Key      string
	Revision int64
	// Since is when this process learnt it.
	Since time.Time
}

// complete returns the configuration with its defaults. The error names what is wrong.
func (c Config) complete() (Config, error) {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"TTL", c.TTL}, {"Margin", c.Margin}, {"ResignTimeout", c.ResignTimeout}, {"RetryPeriod", c.RetryPeriod}} {
		if d.value < 0 {
			return c, fmt.Errorf("leaderelection: Config.%s is %v: leave it out for the default, or set a positive duration", d.name, d.value)
		}
	}
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	c.Margin = cmp.Or(c.Margin, c.TTL/marginOfTTL)
	c.ResignTimeout = cmp.Or(c.ResignTimeout, min(DefaultResignTimeout, c.TTL))
	c.RetryPeriod = cmp.Or(c.RetryPeriod, DefaultRetryPeriod)
	c.Holders = cmp.Or(c.Holders, 1)
	if c.Value == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.Value = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	return c, c.check()
}

func (c Config) check() error {
	switch {
	case c.Name == "":
		return errors.New("leaderelection: Config.Name is empty: name the election, lock or semaphore")
	case c.Holders < 0:
		return fmt.Errorf("leaderelection: Config.Holders is %d: leave it out for an election, or set how many may hold the key", c.Holders)
	case c.TTL < time.Second || c.TTL > clientv3.MaxLeaseTTL*time.Second:
		return fmt.Errorf("leaderelection: Config.TTL is %v: set at least 1 s, and at most %v", c.TTL, clientv3.MaxLeaseTTL*time.Second)
	case c.RetryPeriod > math.MaxInt64>>maxDoublings:
		return fmt.Errorf("leaderelection: Config.RetryPeriod is %v: set at most %v", c.RetryPeriod, time.Duration(math.MaxInt64>>maxDoublings))
	case c.Margin >= c.TTL/3*2:
		return fmt.Errorf("leaderelection: Config.Margin is %v, and renewals of a TTL of %v are %v apart: set a margin below %v, or a longer TTL",
			c.Margin, c.TTL, c.TTL/3, c.TTL/3*2)
	case c.Hooks.NewLeader != nil && c.Holders > 1:
		return errors.New("leaderelection: Hooks.NewLeader needs Config.Holders of 1: a semaphore has no leader")
	}
	return nil
}

// seconds returns the TTL as a lease has it.
func (c Config) seconds() int64 { return int64((c.TTL + time.Second - 1) / time.Second) }
