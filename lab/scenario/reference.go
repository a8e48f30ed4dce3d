package scenario

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/quorate/quorate/lab/check"
	"github.com/quorate/quorate/lab/history"
)

// reference has what the watches are compared with: every change of the run,
// deduced from the keys that are there at its end. That is possible because a key is
// written once or is a counter, of which each change stands beside a key that was
// written once, in the same revision.
type reference struct {
	prefix string
	// bound is the last revision that is needed.
	bound int64
	// revision at which the keys were read.
	revision int64
	// newest holds the last revision of each key that a watch can be on.
	newest map[history.Scope]int64
	events []history.Event
	// increments holds the revisions of the txns of each caller.
	increments map[int][]int64
}

func newReference(prefix string, bound int64) *reference {
	return &reference{prefix: prefix, bound: bound, newest: map[history.Scope]int64{}, increments: map[int][]int64{}}
}

// see records a key.
func (r *reference) see(s check.Stored) {
	for _, scope := range []history.Scope{{All: true}, {Space: s.Key.Space, Caller: s.Key.Caller}} {
		r.newest[scope] = max(r.newest[scope], s.ModRevision)
	}
	if s.Key.Space == history.Counters || s.ModRevision > r.bound {
		return
	}
	r.add(s.Key.Path(r.prefix), s.Value, s.ModRevision, 1, s.ModRevision)
	if s.Key.Space == history.Txns {
		r.increments[s.Key.Caller] = append(r.increments[s.Key.Caller], s.ModRevision)
	}
}

// complete adds the changes of the counters and returns all events, in the order
// of the store: a txn writes its counter first, whose key is also the lower one.
func (r *reference) complete() []history.Event {
	for caller, revisions := range r.increments {
		slices.Sort(revisions)
		counter := history.CounterOf(caller).Path(r.prefix)
		for i, revision := range revisions {
			value := int64(i + 1)
			r.add(counter, strconv.FormatInt(value, 10), revision, value, revisions[0])
		}
	}
	slices.SortFunc(r.events, func(a, b history.Event) int {
		return cmp.Or(cmp.Compare(a.ModRevision, b.ModRevision), cmp.Compare(a.Key, b.Key))
	})
	return r.events
}

func (r *reference) add(key, value string, revision, version, created int64) {
	r.events = append(r.events, history.Event{KeyValue: history.KeyValue{
		Key: key, Value: value, CreateRevision: created, ModRevision: revision, Version: version,
	}})
}
