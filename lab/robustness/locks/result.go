package locks

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

// Result is the result of a run.
type Result struct {
	robustness.Outcome
	// Contenders as configured.
	Contenders int
	// Counts counts what happened to the contenders.
	Counts
	// Attempts by how they were made and what was answered.
	Attempts map[lockcheck.Style]Answers
	// Writes by their outcome.
	Writes Outcomes
	// Releases that succeeded, of locks and of the sessions that held them.
	Releases int
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
func (res *Result) fill(h lockcheck.History, counts Counts) {
	res.Counts, res.Releases = counts, len(h.Releases)
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
		return robustness.Nothing
	}
	return res.Text(fmt.Sprintf("%d members, %d contenders", res.Members, res.Contenders), func(line robustness.Line) {
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
	})
}
