package locks

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/locks/lockcheck"
)

// Result is what came of a run. Without a verdict, because the run failed, only the
// fields up to Interrupted are set.
type Result struct {
	// Seed, Members and Contenders as configured.
	Seed                uint64
	Members, Contenders int
	// Interrupted reports whether the run was asked to end early.
	Interrupted bool

	// Duration from the beginning to the check.
	Duration time.Duration
	// Tally counts the faults.
	fault.Tally
	// Counts says what befell the contenders.
	Counts
	// Revisions that the store went through.
	Revisions int64
	// Attempts by how they were made and what was answered.
	Attempts map[lockcheck.Style]Answers
	// Writes by their outcome.
	Writes Outcomes
	// Releases that succeeded, of locks and of the sessions that held them.
	Releases int
	// Verdict tells what was wrong.
	Verdict lockcheck.Verdict
}

// Answers counts attempts.
type Answers struct {
	Taken, Locked, Failed int
}

// Outcomes counts guarded writes.
type Outcomes struct {
	Accepted, Refused, Unknown int
}

// Checked reports whether there was anything to check.
func (res Result) Checked() bool { return len(res.Attempts) > 0 }

// Taken returns how many attempts took a lock.
func (res Result) Taken() int {
	n := 0
	for _, a := range res.Attempts {
		n += a.Taken
	}
	return n
}

// fill counts what there is to count.
func (res *Result) fill(r *run, h lockcheck.History, verdict lockcheck.Verdict) {
	res.Duration, res.Tally, res.Counts = r.now(), r.storm.Tally(), r.book.counts
	res.Revisions, res.Releases, res.Verdict = h.Through, len(h.Releases), verdict
	res.Attempts = map[lockcheck.Style]Answers{}
	for _, a := range h.Attempts {
		n := res.Attempts[a.Style]
		switch a.Answer {
		case lockcheck.Taken:
			n.Taken++
		case lockcheck.Locked:
			n.Locked++
		case lockcheck.Failed:
			n.Failed++
		}
		res.Attempts[a.Style] = n
	}
	for _, w := range h.Writes {
		switch w.Outcome {
		case lockcheck.Accepted:
			res.Writes.Accepted++
		case lockcheck.Refused:
			res.Writes.Refused++
		case lockcheck.Unknown:
			res.Writes.Unknown++
		}
	}
}

// String returns the result in lines for people.
func (res Result) String() string {
	if !res.Checked() {
		return "nothing was checked\n"
	}
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s"+format+"\n", append([]any{what}, args...)...)
	}
	fmt.Fprintf(&b, "%d members, %d contenders, seed %d, %s\n", res.Members, res.Contenders, res.Seed, res.Duration.Round(time.Second))
	line("store", "%d revisions", res.Revisions)
	line("faults", "%v", res.Tally)
	line("sessions", "%d granted, %d not granted; under a held lock: closed %d, orphaned %d, client closed %d",
		res.Sessions, res.SessionsFailed, res.Closed, res.Orphaned, res.Crashed)
	for _, style := range []lockcheck.Style{lockcheck.Lock, lockcheck.TryLock, lockcheck.Campaign} {
		a := res.Attempts[style]
		line(style.String(), "taken %d, locked by another %d, failed %d", a.Taken, a.Locked, a.Failed)
	}
	line("pauses", "%d while holding and %d with a write on its way, of these %d until the lock had gone; %d while waiting",
		res.PausedHolding, res.Delayed, res.Outlasted, res.PausedWaiting)
	line("writes", "%d guarded: accepted %d, refused %d, unknown %d",
		res.Writes.Accepted+res.Writes.Refused+res.Writes.Unknown, res.Writes.Accepted, res.Writes.Refused, res.Writes.Unknown)
	line("releases", "%d, and calls for a lock returned %s after their deadlines at most", res.Releases, res.Overdue.Round(time.Millisecond))
	line("verdict", "%v", strings.TrimSuffix(res.Verdict.String(), "\n"))
	return b.String()
}
