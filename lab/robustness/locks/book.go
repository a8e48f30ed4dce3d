package locks

import (
	"sync"
	"time"

	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// book is the record of what contenders do and receive.
type book struct {
	mu       sync.Mutex
	attempts []lockcheck.Attempt
	writes   []lockcheck.Write
	releases []lockcheck.Release
	counts   Counts
}

// Counts counts what happened to contenders.
type Counts struct {
	// Sessions that were granted, and SessionsFailed those that could not be had.
	Sessions, SessionsFailed int
	// PausedHolding and PausedWaiting count the contenders that were paused while they
	// held a lock or waited for one, and Delayed the holders that were paused with a
	// guarded write on its way.
	PausedHolding, PausedWaiting, Delayed int
	// Outlasted counts the pauses of holders, with or without a write on its way, that
	// went on until the lock had gone with its lease.
	Outlasted int
	// Orphaned and Closed count the sessions that were given up under a held lock,
	// by Session.Orphan and by Session.Close, and Crashed the clients that were
	// closed.
	Orphaned, Closed, Crashed int
	// Overdue is the longest time by which a call of Lock, TryLock or Campaign
	// outlasted the end of its context.
	Overdue time.Duration
}

// attempt records an attempt and returns its number.
func (b *book) attempt(a lockcheck.Attempt) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts = append(b.attempts, a)
	return len(b.attempts) - 1
}

func (b *book) write(w lockcheck.Write) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes = append(b.writes, w)
}

func (b *book) release(r lockcheck.Release) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.releases = append(b.releases, r)
}

// count changes the counts.
func (b *book) count(change func(*Counts)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.counts)
}
