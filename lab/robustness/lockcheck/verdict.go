package lockcheck

import "github.com/quorate/quorate/lab/internal/tally"

// Promise names what a lock promises those who use it, as reports spell it.
type Promise = tally.Promise

// The promises of a lock.
const (
	// Acquired means that a call which returned success held the lock at some moment
	// before it returned and after it was made, by a key of its own session.
	Acquired Promise = "acquired"
	// Contested means that TryLock says the lock is held by another session only if
	// another session had a key of the lock at some moment of the call.
	Contested Promise = "contested"
	// Guarded means that a guarded write is accepted only from the holder: its key
	// was there, created at the revision that the writer claims, and was the oldest. So no
	// write of a former holder comes after one of a later holder.
	Guarded Promise = "guarded"
	// Truthful means that an accepted write is in the register exactly once, at the
	// revision of the answer, a refused one never, one of unknown outcome once at
	// most, and nothing else.
	Truthful Promise = "truthful"
	// Released means that when Unlock, Resign or Close has returned success the key
	// is gone, and nothing guarded by it is written any more.
	Released Promise = "released"
	// Live means that every contender takes a lock once nothing is in its way.
	Live Promise = "live"
)

// Verdict is what a check found.
type Verdict = tally.Verdict
