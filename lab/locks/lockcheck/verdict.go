package lockcheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/lab/internal/tally"
)

// Promise names what a lock promises those who use it, as reports spell it.
type Promise string

// The promises of a lock.
const (
	// Acquired means that a call which returned success held the lock at some moment
	// before it returned and after it was made, by a key of its own session.
	Acquired Promise = "acquired"
	// Contested means that TryLock says the lock is held by another session only if
	// another session had a key of the lock at some moment of the call.
	Contested Promise = "contested"
	// Guarded means that a guarded write is accepted only from the holder: its key
	// was there, created at the revision that the writer claims, and was the oldest.
	Guarded Promise = "guarded"
	// Fenced means that no guarded write of a former holder comes after one of a
	// later holder: along the history of the register, claims do not go back.
	Fenced Promise = "fenced"
	// Truthful means that an accepted write is in the register exactly once, at the
	// revision that was told, a refused one never, one of unknown outcome once at
	// most, and nothing else.
	Truthful Promise = "truthful"
	// Released means that when Unlock, Resign or Close has returned success the key
	// is gone, and nothing guarded by it is written any more.
	Released Promise = "released"
	// Live means that every contender takes a lock once nothing is in its way.
	Live Promise = "live"
)

// Violation is one broken promise.
type Violation struct {
	// Promise that was broken.
	Promise Promise
	// Revision at which it shows, 0 if at none.
	Revision int64
	// Message says what is wrong, with the evidence.
	Message string
}

// Verdict is what a check found.
type Verdict struct {
	// Violations holds at most ten of each promise.
	Violations []Violation
	// Counts has the number of violations of each promise, kept or not.
	Counts map[Promise]int
}

// OK reports whether every promise was kept.
func (v Verdict) OK() bool { return len(v.Violations) == 0 }

// Total returns the number of violations, those that were not kept included.
func (v Verdict) Total() int {
	return tally.Total(v.Counts)
}

// String returns the verdict in lines: that all is well, or the number of violations
// of each promise and then those that were kept.
func (v Verdict) String() string {
	if v.OK() {
		return "every promise was kept\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d violations\n", v.Total())
	for _, p := range slices.Sorted(maps.Keys(v.Counts)) {
		fmt.Fprintf(&b, "  %-13s %d\n", p, v.Counts[p])
	}
	for _, violation := range v.Violations {
		fmt.Fprintf(&b, "\n%s: %s\n", violation.Promise, violation.Message)
	}
	return b.String()
}

// add counts a violation, and keeps it if there are not too many of its kind.
func (v *Verdict) add(p Promise, revision int64, format string, args ...any) {
	if tally.Add(&v.Counts, p) {
		v.Violations = append(v.Violations, Violation{Promise: p, Revision: revision, Message: fmt.Sprintf(format, args...)})
	}
}
