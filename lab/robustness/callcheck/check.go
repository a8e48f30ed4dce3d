// Package callcheck compares the calls of clients with the history of the store: was a write lost that had been
// acknowledged, was one executed that had failed, or twice, and was an answer older than an earlier one, or none that the
// store can have given at its revision?
package callcheck

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
)

// History is what clients called, and what the store went through.
type History struct {
	// Prefix of the keys of the calls, ending in a slash. Nothing else writes below it.
	Prefix string
	// Events of the store in their order, complete from revision 1 to Through. Those of other keys are ignored.
	Events []history.Event
	// Through is the revision up to which Events is complete. No call was answered at a later one.
	Through int64
	// Calls in any order, all of which have ended. [Check] sorts them by their ends, and sets their Behind.
	Calls []history.Call
}

// Check checks the calls. Since each answer has a revision, the order of the revisions is the only one that can explain
// them: the calls are linearizable if that order contradicts no order in time, and each answer is that of the store at
// its revision.
func Check(h History) Verdict {
	c := &checker{History: h, writes: map[history.Key][]history.Event{}, sent: map[history.Key]bool{}}
	c.verdict.Audited, c.verdict.AuditRevision = true, h.Through
	c.index()
	for i := range c.Calls {
		c.call(&c.Calls[i])
	}
	c.unsent()
	return c.verdict
}

type checker struct {
	History

	verdict Verdict
	// writes has the puts of each key, in their order.
	writes map[history.Key][]history.Event
	// sent are the keys that calls wrote, but for counters.
	sent map[history.Key]bool
	// answers are the linearizable answers by their end, and newest[i] is the one of the highest revision among answers[:i+1].
	answers, newest []*history.Call
}

// index makes calls and events searchable.
func (c *checker) index() {
	for _, e := range c.Events {
		key, err := history.ParseKey(c.Prefix, e.Key)
		if len(e.Key) < len(c.Prefix) || e.Key[:len(c.Prefix)] != c.Prefix {
			continue
		}
		if err != nil || e.Type != history.PutEvent {
			c.verdict.add(WrongValue, fmt.Sprintf("%v: no call does that", e))
			continue
		}
		c.writes[key] = append(c.writes[key], e)
	}
	slices.SortStableFunc(c.Calls, func(a, b history.Call) int { return cmp.Compare(a.End, b.End) })
	for i := range c.Calls {
		call := &c.Calls[i]
		if call.Outcome != history.OK || call.Kind == history.SerializableGet {
			continue
		}
		newest := call
		if n := len(c.newest); n > 0 && c.newest[n-1].Revision >= call.Revision {
			newest = c.newest[n-1]
		}
		c.answers, c.newest = append(c.answers, call), append(c.newest, newest)
	}
}

// answeredBefore returns the answer of the highest revision among those that had come before a moment, nil if none had.
func (c *checker) answeredBefore(at time.Duration) *history.Call {
	n, _ := slices.BinarySearchFunc(c.answers, at, func(call *history.Call, at time.Duration) int { return cmp.Compare(call.End, at) })
	if n == 0 {
		return nil
	}
	return c.newest[n-1]
}

// call checks one call.
func (c *checker) call(call *history.Call) {
	if call.Kind.Writes() {
		c.write(call)
	}
	if call.Outcome != history.OK {
		return
	}
	if call.Revision > c.Through {
		c.verdict.add(WrongValue, fmt.Sprintf("%s answered at revision %d, and the store is at %d", call.Kind, call.Revision, c.Through), *call)
		return
	}
	if call.Kind == history.SerializableGet {
		c.verdict.SerializableReads++
		if before := c.answeredBefore(call.Start); before != nil {
			call.Behind = max(0, before.Revision-call.Revision)
		}
		c.verdict.MaxBehind = max(c.verdict.MaxBehind, call.Behind)
	} else {
		c.verdict.LinearizableAnswers++
		if before := c.answeredBefore(call.Start); before != nil && (call.Revision < before.Revision || call.Wrote() && call.Revision == before.Revision) {
			c.verdict.add(WentBackwards, fmt.Sprintf("%s answered at revision %d although revision %d had been answered before it was sent",
				call.Kind, call.Revision, before.Revision), *before, *call)
		}
	}
	if !call.Wrote() {
		c.read(call)
	}
}

// write compares a call that writes a key once with what the store has of the key.
func (c *checker) write(call *history.Call) {
	v, key := &c.verdict, call.Key
	c.sent[key] = true
	events := c.writes[key]
	switch {
	case call.Outcome == history.Failed || call.Outcome == history.OK && !call.Wrote():
		v.RefusedWrites++
		if len(events) > 0 {
			v.add(RefusedApplied, fmt.Sprintf("%s was written at revision %d, although its caller was told that the write had no effect",
				key, events[0].ModRevision), *call)
			return
		}
	case call.Outcome == history.OK:
		v.AcknowledgedWrites++
		if len(events) == 0 {
			v.add(LostWrite, fmt.Sprintf("%s was acknowledged at revision %d, and the store never had it", key, call.Revision), *call)
			return
		}
		if events[0].ModRevision != call.Revision {
			v.add(AppliedTwice, fmt.Sprintf("%s was acknowledged at revision %d and was written at revision %d",
				key, call.Revision, events[0].ModRevision), *call)
			return
		}
	default:
		v.UnknownWrites++
		if len(events) > 0 {
			v.UnknownApplied++
		}
	}
	if len(events) > 0 {
		c.executed(call, events)
	}
}

// executed checks a write that the store has.
func (c *checker) executed(call *history.Call, events []history.Event) {
	v, key, revision := &c.verdict, call.Key, events[0].ModRevision
	if len(events) > 1 {
		v.add(AppliedTwice, fmt.Sprintf("%s was sent once and written %d times, last at revision %d", key, len(events), events[len(events)-1].ModRevision))
	}
	if events[0].Value != key.Value() {
		v.add(WrongValue, fmt.Sprintf("%s holds %q instead of %q", key, events[0].Value, key.Value()))
	}
	if before := c.answeredBefore(call.Start); call.Outcome != history.OK && before != nil && revision <= before.Revision {
		v.add(WentBackwards, fmt.Sprintf("%s was written at revision %d, which had been answered before it was sent", key, revision), *before)
	}
	if call.Kind != history.Txn {
		return
	}
	counter := history.CounterOf(key.Caller)
	if was, set := c.at(counter, revision-1), c.at(counter, revision); set.ModRevision != revision {
		v.add(TornTxn, fmt.Sprintf("%s was written at revision %d without %s beside it", key, revision, counter))
	} else if number(was) != call.Want || number(set) != call.Want+1 {
		v.add(WrongValue, fmt.Sprintf("%s went from %d to %d at revision %d, and %s compares it with %d and adds 1",
			counter, number(was), number(set), revision, key, call.Want))
	}
}

// number returns the value of a counter, 0 if it did not exist, and -1 for what is no number.
func number(r history.Reading) int64 {
	if !r.Found {
		return 0
	}
	n, err := strconv.ParseInt(r.Value, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// at returns a key as it was at a revision.
func (c *checker) at(key history.Key, revision int64) history.Reading {
	events := c.writes[key]
	n, _ := slices.BinarySearchFunc(events, revision+1, func(e history.Event, revision int64) int { return cmp.Compare(e.ModRevision, revision) })
	if n == 0 {
		return history.Reading{}
	}
	return history.Reading{Found: true, Value: events[n-1].Value, ModRevision: events[n-1].ModRevision}
}

// read compares what a call read with the store at the revision of the answer.
func (c *checker) read(call *history.Call) {
	key := call.Key
	if call.Kind == history.Txn {
		key = history.CounterOf(key.Caller)
	}
	was, read := c.at(key, call.Revision), call.Read
	switch {
	case read == was && call.Kind == history.Txn && number(was) == call.Want:
		c.verdict.add(WrongValue, fmt.Sprintf("%s was %d at revision %d, and a txn that compares it with that was not executed",
			key, call.Want, call.Revision), *call)
	case read == was:
	case was.Found && !read.Found:
		c.verdict.add(LostWrite, fmt.Sprintf("%s was written at revision %d, and a %s at revision %d does not find it",
			key, was.ModRevision, call.Kind, call.Revision), *call)
	case read.ModRevision < was.ModRevision:
		c.verdict.add(WentBackwards, fmt.Sprintf("%s at revision %d saw %s as of revision %d, which was written again at revision %d",
			call.Kind, call.Revision, key, read.ModRevision, was.ModRevision), *call)
	default:
		c.verdict.add(WrongValue, fmt.Sprintf("%s at revision %d found %q of revision %d at %s, which held %q of revision %d",
			call.Kind, call.Revision, read.Value, read.ModRevision, key, was.Value, was.ModRevision), *call)
	}
}

// unsent finds what is in the store and no call wrote.
func (c *checker) unsent() {
	beside := map[history.Key]bool{} // counters, with the revision in place of Seq
	for key, events := range c.writes {
		if key.Space == history.Txns {
			counter := history.CounterOf(key.Caller)
			counter.Seq = events[0].ModRevision
			beside[counter] = true
		}
		if key.Space != history.Counters && !c.sent[key] {
			c.verdict.add(WrongValue, fmt.Sprintf("%s exists and was never written", key))
		}
	}
	for key, events := range c.writes {
		for _, e := range events {
			if set := (history.Key{Space: key.Space, Caller: key.Caller, Seq: e.ModRevision}); key.Space == history.Counters && !beside[set] {
				c.verdict.add(TornTxn, fmt.Sprintf("%s was set to %s at revision %d, and nothing was written beside it", key, e.Value, e.ModRevision))
			}
		}
	}
}
