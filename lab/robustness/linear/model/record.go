package model

import (
	"math"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
)

// Record is the history of a store, with which groups of keys are compared.
type Record struct {
	events  map[string][]history.Event // of each key that no group had yet
	through int64
}

// NewRecord returns the record of the keys below a prefix: events in their order, complete from revision 1 to through. No operation
// was answered at a later one.
func NewRecord(prefix string, events []history.Event, through int64) *Record {
	r := &Record{events: map[string][]history.Event{}, through: through}
	for _, e := range events {
		if strings.HasPrefix(e.Key, prefix) {
			r.events[e.Key] = append(r.events[e.Key], e)
		}
	}
	return r
}

// Check checks the operations on a group, all of which have ended, like the function of that name. The store counts as one more
// client: it reads every event, and the final state. So a write whose value it does not read took no effect, and little is left to
// search.
func (r *Record) Check(keys [Keys]string, operations []Operation, timeout time.Duration) Finding {
	var h History
	written, deleted, store := map[string]bool{}, map[int64]bool{}, 0
	for _, op := range operations {
		store = max(store, op.Client+1)
	}
	for key, name := range keys {
		var is KV
		for _, e := range r.events[name] {
			is = KV{Value: e.Value, CreateRevision: e.CreateRevision, ModRevision: e.ModRevision, Version: e.Version}
			if e.Type == history.DeleteEvent {
				is, deleted[e.ModRevision] = KV{}, true
			}
			written[e.Value] = true
			h.Operations = append(h.Operations, storeRead(store, e.ModRevision, key, is))
		}
		h.Operations = append(h.Operations, storeRead(store, r.through, key, is))
		delete(r.events, name)
	}
	dropped := 0
	for _, op := range operations {
		if op.Outcome == Answered || op.Outcome == Failed || op.Request.mayHaveLeft(written) {
			h.Operations = append(h.Operations, op)
		} else if op.Request.Kind.Writes() {
			dropped++
		}
	}
	h.Claimed = func(revision int64) bool { return !deleted[revision] }
	finding := Check(h, timeout)
	finding.Unseen += dropped
	return finding
}

// recorded is when the store reads, later than everything.
const recorded time.Duration = math.MaxInt64 / 2

// storeRead is a read of a key at a revision by the store, which has a number like clients.
func storeRead(store int, revision int64, key int, is KV) Operation {
	return Operation{
		Client: store, Outcome: Answered, Call: recorded, Return: recorded,
		Request:  Request{Kind: SerializableGet, Then: []Act{{Verb: Read, Key: key}}},
		Response: Response{Revision: revision, Succeeded: true, Results: []Result{{KV: is}}},
	}
}

// mayHaveLeft reports whether a write can have left the values that were written: one of them is its own, or it deletes and puts
// nothing.
func (r Request) mayHaveLeft(written map[string]bool) bool {
	for _, branch := range [][]Act{r.Then, r.Else} {
		puts, deletes := false, false
		for _, act := range branch {
			if act.Verb == Write && written[act.Value] {
				return true
			}
			puts, deletes = puts || act.Verb == Write, deletes || act.Verb == Remove
		}
		if deletes && !puts {
			return true
		}
	}
	return false
}

// Stray returns an event of a key that no group had, if there is one.
func (r *Record) Stray() (stray history.Event, found bool) {
	for _, events := range r.events {
		return events[0], true
	}
	return history.Event{}, false
}
