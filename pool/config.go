package pool

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	// DefaultMaxSize bounds a pool when [Config].MaxSize is 0. It is a number to begin
	// with, that no server minds: what is right is for the server of the resources to say.
	DefaultMaxSize = 8
	// DefaultCreateTimeout is how long [Config].Create may take when [Config].CreateTimeout
	// is 0: what gRPC gives a connection at least to be made.
	DefaultCreateTimeout = 20 * time.Second
	// DefaultCheckTimeout is how long [Config].Check may take when [Config].CheckTimeout is
	// 0: long enough for a server that is slow, because each resource that fails costs it a
	// new one.
	DefaultCheckTimeout = 5 * time.Second
)

// Full says what Acquire does when all resources are borrowed and there may be no more.
type Full uint8

const (
	// Wait waits for one, first come, first served.
	Wait Full = iota
	// Fail returns [ErrFull] at once.
	Fail
)

// Config is the configuration of a [Pool]. Only Create has to be given.
//
// Create, Destroy and Check are called without locks held, and may be called concurrently
// for different resources.
type Config[T any] struct {
	// Create makes a resource. It is called in a goroutine of its own; its context has the
	// values of that of the Acquire which it is for, but neither its deadline nor its end:
	// a resource that comes too late for one is there for the next. The context ends with
	// CreateTimeout, and when the pool is closed. A panic of Create cannot be recovered from
	// by who called Acquire: it ends the program.
	Create func(context.Context) (T, error)
	// Destroy gives up what a resource holds. It is called once for each resource, and the
	// resource counts until it returns, so that there are never more than MaxSize. Default:
	// there is nothing to do.
	Destroy func(T)
	// Check reports what is wrong with a resource that is about to be borrowed; if anything
	// is, the resource is destroyed, and another one takes its place. It is called in a
	// goroutine of its own. Its context has the values of that of the Acquire which it is
	// for, but neither its deadline nor its end: an Acquire whose context ends returns at
	// once, and the resource goes to the next if Check finds nothing. The context ends with
	// CheckTimeout, and when the pool is closed. Default: nothing is ever wrong.
	Check func(context.Context, T) error
	// CheckAfter is for how long a resource must be neither used nor checked to be checked;
	// a check often costs a round trip. Default: 0, every resource is checked that was used
	// before.
	CheckAfter time.Duration
	// CheckTimeout is how long Check may take. A resource that needs longer is destroyed.
	// Default: [DefaultCheckTimeout].
	CheckTimeout time.Duration

	// CheckInterval is after how long an idle resource that was neither used nor checked is
	// checked in the background; after at least half of it, at random, so that pools do not
	// check together. One resource of the pool is checked at a time. A check is no use, except of what
	// MinSize keeps: with a CheckInterval of half of MaxIdleTime or less, that is not replaced.
	// Default: 0, none is.
	CheckInterval time.Duration

	// MaxSize is how many resources there are at most, borrowed ones and those that are
	// being made or destroyed included. Default: [DefaultMaxSize], or MinSize if that is
	// more.
	MaxSize int
	// MinSize is how many resources the pool keeps, even if nobody has asked for one yet.
	// Default: 0.
	MinSize int
	// MaxOverflow is how many resources there may be beyond MaxSize. They are made instead of
	// waiting for others, and when one is released while there are more than MaxSize, and nobody
	// waits, it is destroyed. Default: 0, none.
	MaxOverflow int
	// MaxIdle is how many are kept that nobody uses; what is released beyond is destroyed.
	// Default: MaxSize.
	MaxIdle int
	// MaxIdleTime is for how long a resource is kept unused; one that was idle for longer is
	// never borrowed. It should be less than what its server allows. Those that MinSize keeps
	// are replaced after at least half of it, at random, so that those that were made together,
	// here and in other processes, are not all replaced together. Default: 0, for ever.
	MaxIdleTime time.Duration
	// MaxLifetime is the age at which a resource is not borrowed again. Default: 0, none.
	MaxLifetime time.Duration
	// LifetimeJitter is by how much the MaxLifetime of each resource is longer at most, at
	// random, so that those that were made together are not all replaced together. Default:
	// a tenth of MaxLifetime, as gRPC does with the age of connections. Negative: none.
	LifetimeJitter time.Duration

	// CreateTimeout is how long Create may take. Default: [DefaultCreateTimeout].
	CreateTimeout time.Duration
	// WhenFull is Wait or Fail. Default: Wait.
	WhenFull Full
}

// validate names the first field that is wrong, and says what it should be.
func (c Config[T]) validate() error {
	if c.Create == nil {
		return errors.New("pool: Config.Create is missing; it must make a resource")
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"CheckAfter", int64(c.CheckAfter)},
		{"CheckTimeout", int64(c.CheckTimeout)},
		{"CheckInterval", int64(c.CheckInterval)},
		{"MaxSize", int64(c.MaxSize)},
		{"MaxOverflow", int64(c.MaxOverflow)},
		{"MinSize", int64(c.MinSize)},
		{"MaxIdle", int64(c.MaxIdle)},
		{"MaxIdleTime", int64(c.MaxIdleTime)},
		{"MaxLifetime", int64(c.MaxLifetime)},
		{"CreateTimeout", int64(c.CreateTimeout)},
	} {
		if f.value < 0 {
			return fmt.Errorf("pool: Config.%s is negative; leave it out for its default", f.name)
		}
	}
	switch {
	case c.CheckInterval > 0 && c.Check == nil:
		return errors.New("pool: Config.CheckInterval is set, and Check is missing; it must check a resource")
	case c.MaxSize > 0 && c.MinSize > c.MaxSize:
		return fmt.Errorf("pool: Config.MinSize is %d, more than MaxSize, %d; raise MaxSize or leave it out", c.MinSize, c.MaxSize)
	case c.MaxIdle > 0 && c.MinSize > c.MaxIdle:
		return fmt.Errorf("pool: Config.MinSize is %d, more than MaxIdle, %d; raise MaxIdle or leave it out", c.MinSize, c.MaxIdle)
	case c.WhenFull > Fail:
		return fmt.Errorf("pool: Config.WhenFull is %d; it must be Wait or Fail", c.WhenFull)
	}
	return nil
}

// withDefaults returns the configuration with a value in every field that has a default.
func (c Config[T]) withDefaults() Config[T] {
	if c.MaxSize == 0 {
		c.MaxSize = max(DefaultMaxSize, c.MinSize)
	}
	c.MaxOverflow = min(c.MaxOverflow, math.MaxInt-c.MaxSize)
	if c.MaxIdle == 0 {
		c.MaxIdle = c.MaxSize
	}
	if c.LifetimeJitter == 0 {
		c.LifetimeJitter = c.MaxLifetime / 10
	}
	if c.CreateTimeout == 0 {
		c.CreateTimeout = DefaultCreateTimeout
	}
	if c.CheckTimeout == 0 {
		c.CheckTimeout = DefaultCheckTimeout
	}
	return c
}
