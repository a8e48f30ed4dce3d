package robustness

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/internal/tally"
)

// Promise names what is checked, as reports spell it.
type Promise = tally.Promise

// Violation is one broken promise.
type Violation = tally.Violation

// Verdict is what the checks found.
type Verdict = tally.Verdict

// Outcome is what all runs come to. Without a verdict, because the run failed, only the fields up to Interrupted are set.
type Outcome struct {
	// Seed and Members as configured.
	Seed    uint64
	Members int
	// Interrupted reports whether the run was asked to end early.
	Interrupted bool

	// Duration from the beginning to the end of the checks.
	Duration time.Duration
	// Tally counts the faults.
	fault.Tally
	// Revisions that the store went through.
	Revisions int64
	// Verdict tells what was wrong.
	Verdict Verdict
}

// Base returns the outcome itself. By it, the results of all workloads are alike.
func (o Outcome) Base() Outcome { return o }

// Line adds a line to a result: what it is about, and a text.
type Line func(what, format string, args ...any)

// Text returns a result in lines for people: a head, those that a workload adds, and the verdict.
func (o Outcome) Text(head string, add func(Line)) string {
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s"+format+"\n", append([]any{what}, args...)...)
	}
	fmt.Fprintf(&b, "%s, seed %d, %s\n", head, o.Seed, o.Duration.Round(time.Second))
	if o.Faults != nil {
		line("store", "%d revisions", o.Revisions)
		line("faults", "%v", o.Tally)
	}
	add(line)
	line("verdict", "%v", strings.TrimSuffix(o.Verdict.String(), "\n"))
	return b.String()
}

// Nothing is the text of a run that ended before there was anything to check.
const Nothing = "nothing was checked\n"
