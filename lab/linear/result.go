package linear

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/linear/model"
)

// Promise names what is checked, as reports spell it.
type Promise string

const (
	// Linearizable means that one order of all operations of a group explains every
	// answer; see [model.Check].
	Linearizable Promise = "linearizable"
	// Decided means that the check of a group came to an end.
	Decided Promise = "decided"
	// Accounted means that every revision of the store belongs to a write that was
	// made once.
	Accounted Promise = "accounted"
)

// Violation is one broken promise.
type Violation = tally.Violation[Promise]

// Verdict is what the checks found.
type Verdict = tally.Verdict[Promise]

// Result is what came of a run. Without a verdict, because the run failed, only the
// fields up to Interrupted are set.
type Result struct {
	// Seed, Members and Callers as configured.
	Seed             uint64
	Members, Callers int
	// Interrupted reports whether the run was asked to end early.
	Interrupted bool

	// Duration from the beginning to the end of the checks.
	Duration time.Duration
	// Tally counts the faults.
	fault.Tally
	// Operations by their kind and outcome.
	Operations [model.NumKinds][model.NumOutcomes]int
	// Refused is how many txns had comparisons that did not hold.
	Refused int
	// Revisions that the store went through.
	Revisions int64
	// Checks counts the histories.
	Checks
	// Verdict tells what was wrong.
	Verdict Verdict
}

// fill counts what there is to count.
func (res *Result) fill(r *run) {
	res.Duration, res.Tally = r.now(), r.storm.Tally()
	res.Operations, res.Refused = r.pool.tallies, r.pool.refused
	res.Revisions, _ = r.pool.claims.unclaimed()
	res.Checks, res.Verdict = r.checker.counts, r.checker.verdict
}

// Checked reports whether there was anything to check.
func (res Result) Checked() bool { return res.Groups > 0 }

// Sum returns how many operations, of kinds that write or of the others, had an
// outcome.
func (res Result) Sum(writes bool, outcome model.Outcome) int {
	n := 0
	for kind, outcomes := range res.Operations {
		if model.Kind(kind).Writes() == writes {
			n += outcomes[outcome]
		}
	}
	return n
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
	fmt.Fprintf(&b, "%d members, %d callers, seed %d, %s\n", res.Members, res.Callers, res.Seed, res.Duration.Round(time.Second))
	line("store", "%d revisions", res.Revisions)
	line("faults", "%v", res.Tally)
	for kind, n := range res.Operations {
		what := ""
		if kind == 0 {
			what = "operations"
		}
		line(what, "%-17s answered %d, failed %d, unknown %d",
			model.Kind(kind), n[model.Answered], n[model.Failed], n[model.Unknown])
	}
	line("txns", "succeeded %d, compared in vain %d", res.Operations[model.Txn][model.Answered]-res.Refused, res.Refused)
	line("unknown", "%d writes, of which %d left nothing that anybody saw", res.Sum(true, model.Unknown), res.Unseen)
	line("checked", "%d groups of keys, with up to %d operations, in up to %v each", res.Groups, res.Longest, res.Slowest.Round(time.Millisecond))
	verdict := "every answer is linearizable"
	if !res.Verdict.OK() {
		verdict = strings.TrimSuffix(res.Verdict.String(), "\n")
	}
	line("verdict", "%s", verdict)
	return b.String()
}
