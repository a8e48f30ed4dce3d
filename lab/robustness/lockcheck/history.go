package lockcheck

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
)

// Style is the way in which a lock is asked for.
type Style string

const (
	// Lock waits for a mutex.
	Lock Style = "Lock"
	// TryLock asks for a mutex and does not wait.
	TryLock Style = "TryLock"
	// Campaign waits for leadership of an election.
	Campaign Style = "Campaign"
)

// Claim is what a holder shows for its lock: the key that stands for it, and the
// revision that created the key.
type Claim struct {
	Key      string
	Revision int64
}

// String returns the claim in a few words: "/lock/1a of revision 12".
func (c Claim) String() string { return fmt.Sprintf("%s of revision %d", c.Key, c.Revision) }

// Answer is what became of an attempt to take a lock.
type Answer string

const (
	// Failed means that the call returned an error which says nothing of who holds
	// the lock.
	Failed Answer = "failed"
	// Taken means that the call returned success.
	Taken Answer = "taken"
	// Locked means that TryLock found the lock held by another session.
	Locked Answer = "locked by another"
)

// Attempt is one call of Lock, TryLock or Campaign.
type Attempt struct {
	// Contender who called, from 0.
	Contender int
	// Lock asked for: its place in History.Locks.
	Lock int
	// Style of the call.
	Style Style
	// Session is the lease of the session that the lock was asked for with.
	Session int64
	// Called and Returned are when the call was made and when it returned.
	Called, Returned time.Duration
	// Answer of the call, and its error where it failed.
	Answer Answer
	Err    error
	// Claim of the holder, read when the call had returned success.
	Claim Claim
}

// describe returns the attempt in a few words: "Lock of /lock/a/ by contender 3 at
// 12.345s".
func (a *Attempt) describe(locks []LockKeys) string {
	return fmt.Sprintf("%v of %s by contender %d at %s", a.Style, locks[a.Lock].Prefix, a.Contender, seconds(a.Called))
}

// Outcome is the verdict of the server on a guarded write.
type Outcome string

const (
	// Unknown means that the call failed: the write may have been made, or be made
	// later.
	Unknown Outcome = "unknown"
	// Accepted means that the server said the guard held, and the write was made.
	Accepted Outcome = "accepted"
	// Refused means that the server said the guard did not hold.
	Refused Outcome = "refused"
)

// Write is one write to the register of a lock, guarded by the claim of an attempt
// that took it.
type Write struct {
	// Attempt that took the lock: its place in History.Attempts.
	Attempt int
	// Value that was to be written; no two writes have the same.
	Value string
	// Sent and Answered are when the call was made and when it returned.
	Sent, Answered time.Duration
	// Outcome of the call.
	Outcome Outcome
	// Revision of the store when the guard was evaluated, that of the write itself
	// if it was accepted; 0 if the outcome is unknown.
	Revision int64
}

// Ending is the way in which a lock was given up.
type Ending string

const (
	// Unlocked means Mutex.Unlock or Election.Resign.
	Unlocked Ending = "unlocked"
	// Closed means Session.Close, which gives up all that the session holds.
	Closed Ending = "closed"
)

// Release is one call that returned success and by which a lock was given up. One
// that fails promises nothing.
type Release struct {
	// Attempt that had taken the lock: its place in History.Attempts.
	Attempt int
	// Ending says which call it was.
	Ending Ending
	// Returned is when the call returned.
	Returned time.Duration
}

// LockKeys are the keys of one lock.
type LockKeys struct {
	// Prefix of the keys of those who hold the lock or wait for it, up to and with
	// the last slash.
	Prefix string
	// Register is the key that only the holder may write.
	Register string
}

// History is everything that happened.
type History struct {
	// Locks that there are.
	Locks []LockKeys
	// Events of the store, complete from revision 1 to Through, in the order of
	// their revisions. Keys that belong to no lock are ignored.
	Events []history.Event
	// Through is the revision up to which Events is complete: that of the store when
	// everything was over.
	Through int64
	// Attempts, Writes and Releases in any order.
	Attempts []Attempt
	Writes   []Write
	Releases []Release
	// Contenders is how many there were.
	Contenders int
	// Calm is when the cluster and all contenders had become well, for good, and
	// every contender had time enough to take a lock. 0 asks for nothing.
	Calm time.Duration
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }
