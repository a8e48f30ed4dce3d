package callcheck

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/history"
)

// Problem names a kind of violation, as the JSON report spells it.
type Problem = tally.Promise

const (
	// LostWrite means that an acknowledged write is missing.
	LostWrite Problem = "lost_write"
	// WentBackwards means that a linearizable answer is older than one that had
	// been given before the call was sent.
	WentBackwards Problem = "went_backwards"
	// AppliedTwice means that a write reached the store more than once.
	AppliedTwice Problem = "applied_twice"
	// RefusedApplied means that a write took effect although it had failed.
	RefusedApplied Problem = "refused_applied"
	// TornTxn means that a txn's counter and the keys written beside it disagree.
	TornTxn Problem = "torn_txn"
	// WrongValue means that a key holds something that was never written to it.
	WrongValue Problem = "wrong_value"
)

// Violation is one broken promise, with the calls that prove it.
type Violation = tally.Violation

// Verdict is what a check found. The zero value is that of no check.
type Verdict struct {
	// Audited reports whether the calls were checked.
	Audited bool
	// AuditRevision is the revision of the store up to which they were.
	AuditRevision int64
	// AcknowledgedWrites, UnknownWrites and RefusedWrites count the writes by
	// their outcome for the caller; a txn whose comparison did not hold counts as
	// refused.
	AcknowledgedWrites, UnknownWrites, RefusedWrites int64
	// UnknownApplied counts the unknown writes that turned out to be applied.
	UnknownApplied int64
	// LinearizableAnswers counts the answers of linearizable gets, puts and txns that were checked.
	LinearizableAnswers int64
	// SerializableReads counts the answers of serializable gets.
	SerializableReads int64
	// MaxBehind is how many revisions a serializable get was behind at most;
	// being behind is what such a read allows.
	MaxBehind int64
	tally.Verdict
}

func (v *Verdict) add(p Problem, message string, evidence ...history.Call) {
	violation := v.Add(p, "%s", message)
	if violation == nil {
		return
	}
	for _, call := range evidence {
		violation.Evidence = append(violation.Evidence, describe(call))
	}
}

// describe says in one line what a call saw, and when.
func describe(call history.Call) string {
	what := fmt.Sprintf("%s of %s by caller %d, from %s to %s: revision %d",
		call.Kind, call.Key, call.Caller, at(call.Start), at(call.End), call.Revision)
	switch {
	case call.Kind == history.Put:
		return what
	case call.Kind == history.Txn && call.Applied:
		return fmt.Sprintf("%s, counter set to %d", what, call.Want+1)
	case call.Read.Found:
		return fmt.Sprintf("%s, found %q of revision %d", what, call.Read.Value, call.Read.ModRevision)
	default:
		return what + ", found nothing"
	}
}

func at(d time.Duration) string { return fmt.Sprintf("%.6fs", d.Seconds()) }
