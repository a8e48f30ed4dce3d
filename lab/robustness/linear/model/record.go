package model

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/history"
)

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
