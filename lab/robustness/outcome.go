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

// Verdict is what the checks found.
type Verdict = tally.Verdict

// Counts has what a run counted.
type Counts = tally.Counts

// Outcome is the result of a run. If the run failed before it found anything, only the fields up to Interrupted count.
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
	// Counts has what the workload counted.
	Counts *Counts
	// Verdict lists the violations.
	Verdict Verdict
}

// Checked reports whether there was anything to check.
func (o Outcome) Checked() bool { return o.Duration > 0 }

// String returns the outcome in lines for people.
func (o Outcome) String() string {
	if !o.Checked() {
		return "nothing was checked\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d members, seed %d, %s\n", o.Members, o.Seed, o.Duration.Round(time.Second))
	if o.Faults != nil {
		fmt.Fprintf(&b, "%-21s%d revisions\n%-21s%v\n", "store", o.Revisions, "faults", o.Tally)
	}
	if o.Counts != nil {
		b.WriteString(o.Counts.String())
	}
	fmt.Fprintf(&b, "%-21s%v", "verdict", o.Verdict)
	return b.String()
}
