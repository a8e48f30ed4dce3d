package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/history"
)

// Verdict says whether a history is linearizable.
type Verdict string

const (
	// Linearizable means that one order explains every answer and every event.
	Linearizable Verdict = "linearizable"
	// Violated means that no order does.
	Violated Verdict = "violated"
)

// Finding is what a check found.
type Finding struct {
	Verdict Verdict
	// Unseen is how many writes of unknown outcome took no effect.
	Unseen int
	// Message says which answer fits nowhere, for a violation.
	Message string

	info porcupine.LinearizationInfo
}

// model is the sequential specification: everything takes effect in the order of its rank. The state is the next rank.
var model = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		next, s := state.(int), input.(*step)
		if s.rank == unranked {
			return true, next
		}
		return s.rank == next && s.wrong == "", next + 1
	},
	DescribeOperation: func(input, _ any) string { return input.(*step).String() },
	DescribeState:     func(state any) string { return fmt.Sprint(state, " fit") },
}

// check finds out whether time allows the order of the plan.
func (p *plan) check() Finding {
	finding := Finding{Verdict: Linearizable, Unseen: p.unseen}
	var outcome porcupine.CheckResult
	outcome, finding.info = porcupine.CheckOperationsVerbose(model, p.operations(), 0)
	if outcome != porcupine.Ok {
		finding.Verdict, finding.Message = Violated, p.explain(finding.info)
	}
	return finding
}

// operations returns the history as porcupine takes it. A write of unknown outcome has
// a row of its own in pictures, because its client goes on before it ends, and so has what no client did.
func (p *plan) operations() []porcupine.Operation {
	rows := 0
	all := slices.Concat(p.placed, p.void)
	for _, s := range all {
		rows = max(rows, s.Client+1)
	}
	operations := make([]porcupine.Operation, 0, len(all))
	for _, s := range all {
		row := s.Client
		if s.Outcome == Unknown || s.Call == never {
			row = rows
			rows++
		}
		operations = append(operations, porcupine.Operation{ClientId: row, Input: s, Call: int64(s.begin), Return: int64(s.end)})
	}
	return operations
}

// explain says which operation no order can include, and why.
func (p *plan) explain(info porcupine.LinearizationInfo) string {
	fit := 0
	for _, partial := range info.PartialLinearizationsOperations()[0] {
		for _, operation := range partial {
			fit = max(fit, operation.Input.(*step).rank+1)
		}
	}
	stuck := p.placed[fit]
	why := cmp.Or(stuck.wrong, "by its revision it comes before an operation that had returned when it was called")
	who := fmt.Sprintf("client %d, called at %v", stuck.Client, stuck.Call)
	if stuck.Call == never {
		who = "the record of the store"
	}
	return fmt.Sprintf("%d of %d answers fit, and then %s: %v; %s", fit, len(p.placed), who, stuck, why)
}

// Visualize writes a page for browsers that shows the history, and how far its operations fit.
// It needs nothing else, the network included.
func (f Finding) Visualize(w io.Writer) error { return porcupine.Visualize(model, f.info, w) }

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
	case s.rank != unranked:
		return fmt.Sprintf("%s → unknown (%s), but it took effect at revision %d", text(s.Request), s.Err, s.response.Revision)
	default:
		return fmt.Sprintf("%s → %s (%s)", text(s.Request), s.Outcome, s.Err)
	}
}

// Record is the history of a store, with which groups of keys are compared.
type Record struct {
	events  map[string][]history.Event // of each key that no group had yet
	through int64
}

// NewRecord returns the record of the keys below a prefix: events in their order, complete from revision 1 to through.
func NewRecord(prefix string, events []history.Event, through int64) *Record {
	r := &Record{events: map[string][]history.Event{}, through: through}
	for _, e := range events {
		if strings.HasPrefix(e.Key, prefix) {
			r.events[e.Key] = append(r.events[e.Key], e)
		}
	}
	return r
}

// Check checks the operations on a group of keys, all of which have ended, in any order. No two write the same value, and of those
// that are not shared no two have one revision.
func (r *Record) Check(keys [Keys]string, operations []Operation) Finding {
	var changes []change
	for key, name := range keys {
		for _, e := range r.events[name] {
			c := change{key: key, revision: e.ModRevision}
			if e.Type == history.PutEvent {
				c.is = KV{Value: e.Value, CreateRevision: e.CreateRevision, ModRevision: e.ModRevision, Version: e.Version}
			}
			changes = append(changes, c)
		}
		delete(r.events, name)
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.revision, b.revision) })
	var now store
	for i := range changes {
		now[changes[i].key] = changes[i].is
		changes[i].after = now
	}
	return newPlan(changes, r.through, operations).check()
}

// Linear is the promise that one order of all operations on a group of keys explains every answer and every event of the store.
const Linear tally.Promise = "linearizable"

// CheckAll checks all groups of keys, and that no event is of another key. It counts what it checks.
func (r *Record) CheckAll(groups map[[Keys]string][]Operation, counts *tally.Counts, verdict *tally.Verdict) {
	for keys, operations := range groups {
		finding := r.Check(keys, operations)
		counts.Add("groups", "checked", 1)
		counts.Max("groups", "operations at most", len(operations))
		counts.Add("writes", "unknown and never seen", finding.Unseen)
		if finding.Verdict != Linearizable {
			verdict.Add(Linear, "%q: %s: %s", keys, finding.Verdict, finding.Message)
		}
	}
	for _, events := range r.events {
		verdict.Add(Linear, "%v: no operation is on that key", events[0])
		break
	}
}

// store is the keys of a group.
type store [Keys]KV

// holds reports whether all comparisons hold.
func (s store) holds(comparisons []Compare) bool {
	for _, c := range comparisons {
		if !s[c.Key].holds(c) {
			return false
		}
	}
	return true
}

func (kv KV) holds(c Compare) bool {
	var equal bool
	switch c.Target {
	case Value:
		if kv.Version == 0 {
			return false
		}
		equal = kv.Value == c.Value
	case Version:
		equal = kv.Version == c.Number
	case CreateRevision:
		equal = kv.CreateRevision == c.Number
	case ModRevision:
		equal = kv.ModRevision == c.Number
	}
	return equal != c.NotEqual
}

// perform returns the store after the acts of a branch at a revision. It fails if they are refused, or do not lead to the
// results, as far as these are known.
func (s store) perform(acts []Act, results []Result, revision int64) (after store, ok bool) {
	for i, act := range acts {
		was := s[act.Key]
		if act.MissingLease || i < len(results) && results[i] != was.result(act) {
			return s, false
		}
		switch act.Verb {
		case Read:
		case Write:
			s[act.Key] = was.put(act.Value, revision)
		case Remove:
			s[act.Key] = KV{}
		}
	}
	return s, true
}

// result returns the result of an act on the key.
func (kv KV) result(act Act) (r Result) {
	if act.Verb == Read || act.Prev {
		r.KV = kv
	}
	if act.Verb == Remove {
		r.Deleted = min(kv.Version, 1)
	}
	return r
}

// put returns the key after a put at a revision.
func (kv KV) put(value string, revision int64) KV {
	if kv.Version == 0 {
		kv.CreateRevision = revision
	}
	return KV{Value: value, CreateRevision: kv.CreateRevision, ModRevision: revision, Version: kv.Version + 1}
}
