package model

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdict says whether a history is linearizable.
type Verdict string

const (
	// Linearizable means that one order explains every answer.
	Linearizable Verdict = "linearizable"
	// Violated means that no order does.
	Violated Verdict = "violated"
	// Undecided means that the time was up before either was found.
	Undecided Verdict = "undecided"
)

// Finding is what a check found.
type Finding struct {
	Verdict Verdict
	// Unseen is how many writes of unknown outcome left no value that anyone saw.
	// Each of them took effect once or not at all.
	Unseen int
	// Message says which answer fits nowhere, for a violation.
	Message string

	model porcupine.Model
	info  porcupine.LinearizationInfo
}

// Check checks a history for as long as timeout. The time that it takes grows with the
// number of operations, and doubles with every write of unknown outcome that may have
// taken effect unseen.
func Check(h History, timeout time.Duration) Finding {
	p := newPlan(h)
	finding := Finding{Verdict: Linearizable, Unseen: len(p.loose), model: p.model()}
	operations := p.operations()
	// This form also ends the search before it returns.
	outcome, info := porcupine.CheckOperationsVerbose(finding.model, operations, timeout)
	finding.info = info
	switch outcome {
	case porcupine.Ok:
	case porcupine.Unknown:
		finding.Verdict = Undecided
		finding.Message = fmt.Sprintf("%d operations, %d of them writes of unknown outcome that nobody saw, are not decided in %v",
			len(operations), len(p.loose), timeout)
	default:
		finding.Verdict = Violated
		finding.Message = p.explain(info)
	}
	return finding
}

// explain says which placed operation no order can include, and why.
func (p *plan) explain(info porcupine.LinearizationInfo) string {
	var furthest state
	for _, partial := range info.PartialLinearizationsOperations()[0] {
		at := state{}
		for _, operation := range partial {
			at, _ = p.step(at, operation.Input.(*step))
		}
		if at.next > furthest.next {
			furthest = at
		}
	}
	stuck := p.placed[furthest.next]
	why := "the store before it: " + text(furthest.store)
	if _, fits := p.step(furthest, stuck); fits {
		why = "by its revision it comes before an operation that had returned when it was called"
	}
	who := fmt.Sprintf("client %d, called at %v", stuck.Client, stuck.Call)
	if stuck.Call == recorded {
		who = "the record of the store"
	}
	return fmt.Sprintf("%d of %d answers fit, and then %s: %v; %s", furthest.next, len(p.placed), who, stuck, why)
}

// Visualize writes a page for browsers that shows the history, and how far its operations fit.
// It needs nothing else, the network included.
func (f Finding) Visualize(w io.Writer) error { return porcupine.Visualize(f.model, f.info, w) }

// text returns a value as JSON.
func text(v any) string {
	b, _ := json.Marshal(v) // no type of the model fails
	return string(b)
}

// String describes what was asked and what is known of its end.
func (s *step) String() string {
	switch {
	case s.Outcome == Answered:
		return text(s.Request) + " → " + text(s.response)
	case s.effect == placed:
		return fmt.Sprintf("%s → unknown (%s), but its value was seen at revision %d", text(s.Request), s.Err, s.response.Revision)
	default:
		return fmt.Sprintf("%s → %s (%s)", text(s.Request), s.Outcome, s.Err)
	}
}
