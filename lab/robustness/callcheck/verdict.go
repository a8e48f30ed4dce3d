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
	// LeaseEndedEarly means that the key of a lease was gone while the client claimed the
	// lease to live. Either the client counted wrongly or the server ended the lease before
	// its time. etcd does that when a leader was paused for longer than the TTL and goes on:
	// it ends the leases that expired by its own count, renewed or not; of the lab's faults
	// only leader-stop could show it.
	LeaseEndedEarly Problem = "lease_ended_early"
)

// Verdict is what a check found.
type Verdict = tally.Verdict

// look checks that a lease lived for as long as the client claimed.
func (c *checker) look(look history.LeaseLook) {
	c.counts.Add("leases", "looks at their keys", 1)
	if !look.Refutes() {
		return
	}
	violation := c.verdict.Add(LeaseEndedEarly, "lease %x had ended by %s, and the client claimed it to live until %s",
		look.Lease, at(look.Answered), at(look.Claim.Until))
	violation.Evidence = []string{
		fmt.Sprintf("claimed at %s to live until %s", at(look.Claim.At), at(look.Claim.Until)),
		fmt.Sprintf("linearizable get of %s, from %s to %s: revision %d, found nothing",
			look.Key, at(look.Asked), at(look.Answered), look.Revision),
	}
}

func (c *checker) add(p Problem, message string, evidence ...history.Call) {
	violation := c.verdict.Add(p, "%s", message)
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
