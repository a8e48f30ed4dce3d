package linear

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// The promises.
const (
	// Linearizable means that one order of all operations of a group explains every
	// answer; see [model.Check].
	Linearizable robustness.Promise = "linearizable"
	// Decided means that the check of a group came to an end.
	Decided robustness.Promise = "decided"
	// Accounted means that every revision of the store belongs to a write that was
	// made once.
	Accounted robustness.Promise = "accounted"
	// Known means that the outcome of an idempotent write is known, unless its context has ended.
	Known robustness.Promise = "known"
)

// Result is the result of a run.
type Result struct {
	robustness.Outcome
	// Callers as configured.
	Callers int
	// Operations by their kind and outcome.
	Operations [model.NumKinds][model.NumOutcomes]int
	// Refused is how many txns had comparisons that did not hold.
	Refused int
	// Grouped is how many writes had the revision of another one.
	Grouped int
	// UnknownEarly is how many writes of unknown outcome ended before their contexts.
	UnknownEarly int64
	// FromMemory is how many gets caches answered.
	FromMemory int64
	// Checks counts the histories.
	Checks
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
		return robustness.Nothing
	}
	return res.Text(fmt.Sprintf("%d members, %d callers", res.Members, res.Callers), func(line robustness.Line) {
		what := "operations"
		for kind, n := range res.Operations {
			line(what, "%-17s answered %d, failed %d, unknown %d",
				model.Kind(kind), n[model.Answered], n[model.Failed], n[model.Unknown])
			what = ""
		}
		line("txns", "succeeded %d, compared in vain %d", res.Operations[model.Txn][model.Answered]-res.Refused, res.Refused)
		line("grouped", "%d writes had the revision of another one", res.Grouped)
		line("cached", "%d gets were answered from memory", res.FromMemory)
		line("unknown", "%d writes, %d of them before their contexts ended; %d left nothing that was seen", res.Sum(true, model.Unknown), res.UnknownEarly, res.Unseen)
		line("checked", "%d groups of keys, with up to %d operations, in up to %v each", res.Groups, res.Longest, res.Slowest.Round(time.Millisecond))
	})
}
