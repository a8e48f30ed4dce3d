package pool

import "time"

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
	// Waited is how many of these had to wait, including those still waiting.
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
