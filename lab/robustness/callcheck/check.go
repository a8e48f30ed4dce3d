// Package callcheck compares the calls of clients with the history of the store: was a write lost that had been
// acknowledged, was one executed that had failed, or twice, and was an answer older than an earlier one, or none that the
// store can have given at its revision?
package callcheck

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/internal/tally"
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
	// Calls in any order, all of which have ended. [Check] sorts them by their ends.
	Calls []history.Call
	// Looks at the keys of leases.
	Looks []history.LeaseLook
}

// Check checks the calls. Since each answer has a revision, the order of the revisions is the only one that can explain
// them: the calls are linearizable if that order contradicts no order in time, and each answer is that of the store at
// its revision. What was checked is counted.
func Check(h History, counts *tally.Counts) Verdict {
	c := &checker{History: h, counts: counts, writes: map[string][]history.Event{}}
	c.index()
	for i := range c.Calls {
		c.call(&c.Calls[i])
	}
	c.unsent()
	for _, look := range c.Looks {
		c.look(look)
	}
	return c.verdict
}

type checker struct {
	History

	verdict Verdict
	counts  *tally.Counts
	// writes has the puts of each key, in their order.
	writes map[string][]history.Event
	// clock has the linearizable answers.
	clock *history.Clock
}

// index makes calls and events searchable.
func (c *checker) index() {
	for _, e := range c.Events {
		switch {
		case !strings.HasPrefix(e.Key, c.Prefix):
		case e.Type == history.DeleteEvent:
			c.add(WrongValue, fmt.Sprintf("%v: no call does that", e))
		default:
			c.writes[e.Key] = append(c.writes[e.Key], e)
		}
	}
	slices.SortStableFunc(c.Calls, func(a, b history.Call) int { return cmp.Compare(a.End, b.End) })
	answers := make([]history.Answer, 0, len(c.Calls))
	for i, call := range c.Calls {
		if call.Outcome == history.OK && call.Kind != history.SerializableGet {
			answers = append(answers, history.Answer{Sent: call.Start, Returned: call.End, Revision: call.Revision, Call: i})
		}
	}
	c.clock = history.NewClock(answers)
}

// answeredBefore returns the answer of the highest revision among those that had come before a moment, nil if none had.
func (c *checker) answeredBefore(at time.Duration) *history.Call {
	_, call, ok := c.clock.AtLeast(at)
	if !ok {
		return nil
	}
	return &c.Calls[call]
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
		c.add(WrongValue, fmt.Sprintf("%s answered at revision %d, and the store is at %d", call.Kind, call.Revision, c.Through), *call)
		return
	}
	if call.Kind == history.SerializableGet {
		c.counts.Add("answers", "serializable", 1)
		if before := c.answeredBefore(call.Start); before != nil {
			c.counts.Max("answers", "revisions behind at most", int(before.Revision-call.Revision))
		}
	} else {
		c.counts.Add("answers", "linearizable", 1)
		if before := c.answeredBefore(call.Start); before != nil && (call.Revision < before.Revision || call.Wrote() && call.Revision == before.Revision) {
			c.add(WentBackwards, fmt.Sprintf("%s answered at revision %d although revision %d had been answered before it was sent",
				call.Kind, call.Revision, before.Revision), *before, *call)
		}
	}
	if !call.Wrote() {
		c.read(call)
	}
}

// write compares a call that writes a key once with what the store has of the key.
func (c *checker) write(call *history.Call) {
	key, events := call.Key, c.writes[call.Key]
	switch {
	case call.Outcome == history.Failed || call.Outcome == history.OK && !call.Wrote():
		c.counts.Add("writes", "refused", 1)
		if len(events) > 0 {
			c.add(RefusedApplied, fmt.Sprintf("%s was written at revision %d, although its caller was told that the write had no effect",
				key, events[0].ModRevision), *call)
			return
		}
	case call.Outcome == history.OK:
		c.counts.Add("writes", "acknowledged", 1)
		if len(events) == 0 {
			c.add(LostWrite, fmt.Sprintf("%s was acknowledged at revision %d, and the store never had it", key, call.Revision), *call)
			return
		}
		if events[0].ModRevision != call.Revision {
			c.add(AppliedTwice, fmt.Sprintf("%s was acknowledged at revision %d and was written at revision %d",
				key, call.Revision, events[0].ModRevision), *call)
			return
		}
	default:
		c.counts.Add("writes", "unknown", 1)
		if len(events) > 0 {
			c.counts.Add("writes", "unknown and applied", 1)
		}
	}
	if len(events) > 0 {
		c.executed(call, events)
	}
}

// executed checks a write that the store has.
func (c *checker) executed(call *history.Call, events []history.Event) {
	key, revision := call.Key, events[0].ModRevision
	if len(events) > 1 {
		c.add(AppliedTwice, fmt.Sprintf("%s was sent once and written %d times, last at revision %d", key, len(events), events[len(events)-1].ModRevision))
	}
	if events[0].Value != key {
		c.add(WrongValue, fmt.Sprintf("%s holds %q instead of its name", key, events[0].Value))
	}
	if before := c.answeredBefore(call.Start); call.Outcome != history.OK && before != nil && revision <= before.Revision {
		c.add(WentBackwards, fmt.Sprintf("%s was written at revision %d, which had been answered before it was sent", key, revision), *before)
	}
	if call.Kind != history.Txn {
		return
	}
	counter := call.Counter
	if was, set := c.at(counter, revision-1), c.at(counter, revision); set.ModRevision != revision {
		c.add(TornTxn, fmt.Sprintf("%s was written at revision %d without %s beside it", key, revision, counter))
	} else if number(was) != call.Want || number(set) != call.Want+1 {
		c.add(WrongValue, fmt.Sprintf("%s went from %d to %d at revision %d, and %s compares it with %d and adds 1",
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
func (c *checker) at(key string, revision int64) history.Reading {
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
		key = call.Counter
	}
	was, read := c.at(key, call.Revision), call.Read
	switch {
	case read == was && call.Kind == history.Txn && number(was) == call.Want:
		c.add(WrongValue, fmt.Sprintf("%s was %d at revision %d, and a txn that compares it with that was not executed",
			key, call.Want, call.Revision), *call)
	case read == was:
	case was.Found && !read.Found:
		c.add(LostWrite, fmt.Sprintf("%s was written at revision %d, and a %s at revision %d does not find it",
			key, was.ModRevision, call.Kind, call.Revision), *call)
	case read.ModRevision < was.ModRevision:
		c.add(WentBackwards, fmt.Sprintf("%s at revision %d saw %s as of revision %d, which was written again at revision %d",
			call.Kind, call.Revision, key, read.ModRevision, was.ModRevision), *call)
	default:
		c.add(WrongValue, fmt.Sprintf("%s at revision %d found %q of revision %d at %s, which held %q of revision %d",
			call.Kind, call.Revision, read.Value, read.ModRevision, key, was.Value, was.ModRevision), *call)
	}
}

// unsent finds what is in the store and no call wrote.
func (c *checker) unsent() {
	type change struct {
		key      string
		revision int64
	}
	sent, counters, incremented := map[string]bool{}, map[string]bool{}, map[change]bool{}
	for _, call := range c.Calls {
		switch call.Kind {
		case history.LinearizableGet, history.SerializableGet, history.NumKinds:
		case history.Put:
			sent[call.Key] = true
		case history.Txn:
			sent[call.Key], counters[call.Counter] = true, true
			for _, e := range c.writes[call.Key] {
				incremented[change{call.Counter, e.ModRevision}] = true
			}
		default:
		}
	}
	for key, events := range c.writes {
		if !sent[key] && !counters[key] {
			c.add(WrongValue, fmt.Sprintf("%s exists and was never written", key))
		}
		for _, e := range events {
			if counters[key] && !incremented[change{key, e.ModRevision}] {
				c.add(TornTxn, fmt.Sprintf("%s was set to %s at revision %d, and nothing was written beside it", key, e.Value, e.ModRevision))
			}
		}
	}
}
