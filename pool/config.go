package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	// DefaultMaxSize bounds a pool when [Config].MaxSize is 0. It is safe for any server; the
	// optimum depends on the server.
	DefaultMaxSize = 8
	// DefaultCreateTimeout is how long [Config].Create may take when [Config].CreateTimeout
	// is 0: gRPC's minimum connect timeout.
	DefaultCreateTimeout = 20 * time.Second
	// DefaultCheckTimeout is how long [Config].Check may take when [Config].CheckTimeout is 0. It
	// is long, because every resource that fails its check costs a slow server a new one.
	DefaultCheckTimeout = 5 * time.Second
)

// Full is what Acquire does when all resources are borrowed and the pool is at its
// maximum size.
type Full uint8

const (
	// Wait waits for a resource, in FIFO order.
	Wait Full = iota
	// Fail returns [ErrFull] at once.
	Fail
)

// Config is the configuration of a [Pool]. Only Create is required.
//
// Create, Destroy and Check are called without locks held, and may be called concurrently
// for different resources.
type Config[T any] struct {
	// Create creates a resource. It runs in a separate goroutine. Its context has the values of
	// the context of Acquire, but not its deadline or cancellation: a resource that is late for
	// one caller goes to the next. The context ends after CreateTimeout, and when the pool is
	// closed. A panic in Create ends the program; the caller of Acquire cannot recover it.
	Create func(context.Context) (T, error)
	// Destroy frees a resource. It is called once for each resource, which counts towards
	// MaxSize until it returns. Default: none.
	Destroy func(T)
	// Check checks a resource that is about to be lent. If it returns an error, the
	// resource is destroyed and replaced. It runs in a separate goroutine. Its context has
	// the values of the context of Acquire, but not its deadline or cancellation: an
	// Acquire whose context ends returns at once, and the checked resource goes to the next
	// caller. The context ends after CheckTimeout, and when the pool is closed. Default: no
	// check.
	Check func(context.Context, T) error
	// CheckAfter is the time since the last use or check after which a resource is checked
	// before it is lent; a check often costs a round trip. Default: 0, every used resource
	// is checked.
	CheckAfter time.Duration
	// CheckTimeout is how long Check may take. A resource that needs longer is destroyed.
	// Default: [DefaultCheckTimeout].
	CheckTimeout time.Duration

	// CheckInterval is the time since the last use or check after which an idle resource is checked
	// in the background; at random after at least half of it, so that pools do not check in step.
	// The pool checks one resource at a time. A check does not count as a use, except for the
	// resources that MinSize keeps: with a CheckInterval of at most half of MaxIdleTime, those are
	// not replaced. At least 1 ms. Default: 0, no background checks.
	CheckInterval time.Duration

	// MaxSize is the maximum number of resources, including borrowed ones and those being
	// created or destroyed. Default: [DefaultMaxSize], or MinSize if that is more.
	MaxSize int
	// MinSize is how many resources the pool keeps, even before the first Acquire.
	// Default: 0.
	MinSize int
	// MaxOverflow is how many resources there may be beyond MaxSize. They are created instead of
	// waiting. A resource that is released while there are more than MaxSize and no waiters is
	// destroyed. Default: 0, none.
	MaxOverflow int
	// MaxIdle is the maximum number of idle resources; further released ones are
	// destroyed. Default: MaxSize.
	MaxIdle int
	// MaxIdleTime is how long a resource may be idle; one that was idle for longer is never
	// lent. Set it below the idle timeout of the server. Resources that MinSize keeps are
	// replaced at random after at least half of it, so that resources created together, here
	// and in other processes, are not replaced together. Default: 0, no limit.
	MaxIdleTime time.Duration
	// MaxLifetime is the age after which a resource is not lent again. A resource that expires within
	// a second of its creation is replaced for MinSize half a second to a second later. Default: 0, no
	// limit.
	MaxLifetime time.Duration
	// LifetimeJitter is the maximum random extension of each resource's MaxLifetime, so
	// that resources created together are not replaced together. Default: a tenth of
	// MaxLifetime, as in gRPC's MaxConnectionAge. Negative: none.
	LifetimeJitter time.Duration

	// CreateTimeout is how long Create may take. Default: [DefaultCreateTimeout].
	CreateTimeout time.Duration
	// WhenFull is Wait or Fail. Default: Wait.
	WhenFull Full
}

// validate returns an error with the first invalid field and its allowed values.
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
	case c.CheckInterval > 0 && c.CheckInterval < time.Millisecond: // a wrong unit, with which checks never pause
		return fmt.Errorf("pool: Config.CheckInterval is %v; it must be at least %v, or 0 for no background checks", c.CheckInterval, time.Millisecond)
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
	c.MaxSize = cmp.Or(c.MaxSize, max(DefaultMaxSize, c.MinSize))
	c.MaxOverflow = min(c.MaxOverflow, math.MaxInt-c.MaxSize)
	c.MaxIdle = cmp.Or(c.MaxIdle, c.MaxSize)
	c.LifetimeJitter = cmp.Or(c.LifetimeJitter, c.MaxLifetime/10)
	c.CreateTimeout = cmp.Or(c.CreateTimeout, DefaultCreateTimeout)
	c.CheckTimeout = cmp.Or(c.CheckTimeout, DefaultCheckTimeout)
	return c
}

// Stats is the state of a pool at one moment, and what was counted since it was made.
type Stats struct {
	// Size is the number of resources, including those being created or destroyed.
	Size int
	// Idle, Borrowed, Creating and Destroying are the parts of Size. A resource that is checked in the
	// background is Borrowed.
	Idle, Borrowed, Creating, Destroying int
	// Waiting is the number of calls of Acquire and Do that wait for a resource.
	Waiting int

	// Acquired is the number of calls of Acquire, TryAcquire and Do, except those after Close or
	// with an ended context.
	Acquired uint64
	// Waited is how often these had to wait, including those still waiting: a call waits again to replace a
	// resource that its Check refuses.
	Waited uint64
	// WaitTime is their total waiting time, without those still waiting.
	WaitTime time.Duration
	// Canceled is how many calls ended with their context while waiting for a resource or
	// its Check.
	Canceled uint64
	// Full is how many got ErrFull.
	Full uint64

	// Created and CreateErrors count the successful and failed calls of Create.
	Created, CreateErrors uint64
	// Destroyed is the number of resources that were destroyed, by reason.
	Destroyed Destroyed
	// Hijacked is the number of resources removed by Hijack.
	Hijacked uint64
	// StaleReleases counts calls of Release, ReleaseUnused, Discard and Hijack whose loan had
	// already ended.
	StaleReleases uint64
}

// Destroyed counts resources that were destroyed, by reason.
type Destroyed struct {
	// CheckFailed is how many failed their Check.
	CheckFailed uint64
	// TooOld is how many reached MaxLifetime.
	TooOld uint64
	// IdleTooLong is how many reached MaxIdleTime, or were replaced before it for MinSize.
	IdleTooLong uint64
	// TooManyIdle is how many were released while MaxIdle others were idle.
	TooManyIdle uint64
	// Overflowed is how many were released while there were more than MaxSize.
	Overflowed uint64
	// Discarded is how many were discarded by their borrowers.
	Discarded uint64
	// PoolReset is how many were destroyed by Reset.
	PoolReset uint64
	// PoolClosed is how many were destroyed by Close.
	PoolClosed uint64
}

// Stats returns the state of the pool.
func (p *Pool[T]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.counts
	s.Size, s.Idle, s.Creating, s.Destroying = p.size, len(p.idle), p.building, p.dying
	s.Borrowed = p.size - len(p.idle) - p.building - p.dying
	s.Waiting = p.waiters.Len()
	s.Destroyed = Destroyed{
		CheckFailed: p.destroyed[checkFailed],
		TooOld:      p.destroyed[tooOld],
		IdleTooLong: p.destroyed[idleTooLong],
		TooManyIdle: p.destroyed[tooManyIdle],
		Overflowed:  p.destroyed[overflowed],
		Discarded:   p.destroyed[discarded],
		PoolReset:   p.destroyed[poolReset],
		PoolClosed:  p.destroyed[poolClosed],
	}
	return s
}
