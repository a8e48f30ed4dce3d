// Package lockcheck checks what clients learned of their locks against the history
// of the store.
//
// A lock is etcd's: every client that wants it creates a key under the lock's
// prefix, and the oldest key, that with the lowest create revision, holds it. Every
// lock has a register, a key that only the holder may write, by a txn whose guard
// compares the holder's [Claim]. Attempts and writes are compared with the complete history of these
// keys; nothing is taken from clocks except the order of calls and returns.
//
// [Check] reports where a [Promise] is broken. Where clocks cannot decide, the
// history counts as correct, so every reported violation did happen.
package lockcheck

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/history"
)

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

// Claim identifies a lock that is held: the key of the holder, and the revision
// that created the key.
type Claim struct {
	Key      string
	Revision int64
}

// String returns the claim in a few words: "/lock/1a of revision 12".
func (c Claim) String() string { return fmt.Sprintf("%s of revision %d", c.Key, c.Revision) }

// Answer is the result of an attempt to take a lock.
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

// Attempt is one call of Lock, TryLock or Campaign, and what was done with a lock that it took.
type Attempt struct {
	// Contender who called, from 0.
	Contender int
	// Lock asked for: its place in History.Locks.
	Lock int
	// Style of the call.
	Style Style
	// Session is the lease of the session that asked for the lock.
	Session int64
	// Called and Returned are when the call was made and when it returned.
	Called, Returned time.Duration
	// Answer of the call, and its error where it failed.
	Answer Answer
	Err    error
	// Claim of the holder, read when the call had returned success.
	Claim Claim
	// Writes that were guarded by the claim.
	Writes []Write
	// Ending is the call that returned success and gave the lock up, empty if there was none: one
	// that fails promises nothing. Ended is when it returned.
	Ending Ending
	Ended  time.Duration
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

// Write is one guarded write to the register of a lock.
type Write struct {
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
	// Locks of the run.
	Locks []LockKeys
	// Events of the store, complete from revision 1 to Through, in the order of
	// their revisions. Keys that belong to no lock are ignored.
	Events []history.Event
	// Through is the revision up to which Events is complete: that of the store when
	// everything was over.
	Through int64
	// Attempts of each contender, in their order.
	Attempts [][]*Attempt
	// Calm is the moment from which the cluster and all contenders stayed healthy;
	// every contender had enough time after it to take a lock. With 0, [Live] is
	// not checked.
	Calm time.Duration
}
