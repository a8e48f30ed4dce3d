package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// change is an event of a key of the group.
type change struct {
	key      int
	revision int64
	is       KV    // the key after the event, zero if it was deleted
	after    store // all keys after the event
	by       *step // the operation that made it, nil if none is known
}

// never is later than everything.
const never time.Duration = math.MaxInt64 / 2

// unranked is the rank of an operation that took no effect.
const unranked = -1

// step is an operation of the plan, or the record of an event that no operation made.
type step struct {
	*Operation

	// rank in the order of all that took effect, from 0.
	rank int
	// response of the operation. That of a write of unknown outcome has no results.
	response Response
	wrote    bool
	// wrong says why the operation cannot have had its response, empty if it can.
	wrong string
	// begin and end bound the moment of its effect.
	begin, end time.Duration
}

// plan is the history of a group. Revisions order all operations that took effect: those that write before those that only read
// at the same revision, and the latter as they were called, which contradicts no order in time. So all that is left to find out
// is whether time allows that order.
type plan struct {
	changes []change // in the order of their revisions
	through int64    // the last revision of the store
	placed  []*step  // all that took effect, at their ranks
	void    []*step  // what took none
	unseen  int      // how many of these are writes of unknown outcome
}

// newPlan makes the plan of a history: everything is placed, and checked against the events.
func newPlan(changes []change, through int64, operations []Operation) *plan {
	p := &plan{changes: changes, through: through}
	var unknown, shared []*Operation
	for i := range operations {
		switch op := &operations[i]; {
		case op.Outcome == Answered:
			p.place(op, op.Response, op.Return)
		case !op.Request.Kind.Writes(): // it says nothing
		case op.Outcome == Failed:
			p.leaveOut(op)
		case op.Request.Shared:
			shared = append(shared, op)
		default:
			unknown = append(unknown, op)
		}
	}
	unknown = slices.DeleteFunc(append(unknown, shared...), p.placeWritten)
	for i := range p.changes {
		if c := &p.changes[i]; c.by == nil && c.is == (KV{}) {
			unknown = p.placeDeletion(c, unknown)
		}
	}
	p.unseen = len(unknown)
	for _, op := range unknown {
		p.leaveOut(op)
	}
	p.placeRest()
	p.rank()
	return p
}

// leaveOut notes an operation that took no effect.
func (p *plan) leaveOut(op *Operation) {
	p.void = append(p.void, &step{Operation: op, rank: unranked, begin: op.Return, end: op.Return})
}

// place places an operation at the revision of its response, and marks what it changed.
func (p *plan) place(op *Operation, response Response, end time.Duration) {
	s := &step{
		Operation: op, response: response, begin: op.Call, end: end,
		wrote: op.Outcome != Answered || op.Request.Wrote(response),
	}
	s.wrong = p.execute(s)
	p.placed = append(p.placed, s)
}

// placeWritten places a write of unknown outcome, if one of its values was written.
func (p *plan) placeWritten(op *Operation) bool {
	for _, succeeded := range []bool{true, false} {
		for _, act := range op.Request.Branch(succeeded) {
			i := slices.IndexFunc(p.changes, func(c change) bool {
				return act.Verb == Write && c.key == act.Key && c.is.Version > 0 && c.is.Value == act.Value
			})
			if i >= 0 {
				p.place(op, Response{Revision: p.changes[i].revision, Succeeded: succeeded}, never)
				return true
			}
		}
	}
	return false
}

// placeDeletion places a write of unknown outcome that can have made a deletion, if there is one, and returns the others. One
// that can have made this deletion can have made every later one, unless that shares its revision: so writes that are not
// shared come first.
func (p *plan) placeDeletion(c *change, unknown []*Operation) []*Operation {
	before, alone := p.at(c.revision-1), true
	for _, other := range p.of(c.revision) {
		alone = alone && other.by == nil
	}
	n := slices.IndexFunc(unknown, func(op *Operation) bool {
		acts := op.Request.Branch(before.holds(op.Request.If))
		deletes := slices.ContainsFunc(acts, func(a Act) bool { return a.Verb == Remove && a.Key == c.key })
		puts := slices.ContainsFunc(acts, func(a Act) bool { return a.Verb == Write }) // and what it puts was not written
		early := slices.ContainsFunc(p.placed, func(s *step) bool { return s.end < op.Call && s.response.Revision >= c.revision })
		return deletes && !puts && !early && (alone || op.Request.Shared)
	})
	if n < 0 {
		return unknown
	}
	p.place(unknown[n], Response{Revision: c.revision, Succeeded: before.holds(unknown[n].Request.If)}, never)
	return slices.Delete(unknown, n, n+1)
}

// placeRest places the events that no operation made, as reads.
func (p *plan) placeRest() {
	for _, c := range p.changes {
		if c.by == nil {
			op := &Operation{Call: never, Request: Request{Kind: SerializableGet, Then: []Act{{Verb: Read, Key: c.key}}}}
			p.placed = append(p.placed, &step{
				Operation: op, response: Response{Revision: c.revision, Succeeded: true, Results: []Result{{KV: c.is}}},
				wrote: true, wrong: "no operation made that", begin: never, end: never,
			})
		}
	}
}

// rank orders the operations that took effect.
func (p *plan) rank() {
	slices.SortStableFunc(p.placed, func(a, b *step) int {
		return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(a.Call, b.Call))
	})
	var earliest time.Duration // that the operation of the rank below can have taken effect
	for rank, s := range p.placed {
		s.rank = rank
		if s.Request.Kind == SerializableGet { // it reads the past, but, by its rank, no older state
			s.begin = min(s.begin, earliest)
		}
		earliest = s.begin
	}
}

// order grows with the revision, and a write comes before what only reads at its revision.
func (s *step) order() int64 {
	if s.wrote {
		return 2 * s.response.Revision
	}
	return 2*s.response.Revision + 1
}

// at returns the keys at a revision.
func (p *plan) at(revision int64) store {
	n := p.from(revision + 1)
	if n == 0 {
		return store{}
	}
	return p.changes[n-1].after
}

// of returns the changes of a revision.
func (p *plan) of(revision int64) []change { return p.changes[p.from(revision):p.from(revision+1)] }

// from returns where the changes at and after a revision begin.
func (p *plan) from(revision int64) int {
	n, _ := slices.BinarySearchFunc(p.changes, revision, func(c change, revision int64) int { return cmp.Compare(c.revision, revision) })
	return n
}

// execute marks what an operation changed at its revision. It returns why the operation cannot have had its response, empty if it
// can.
func (p *plan) execute(s *step) (wrong string) {
	revision := s.response.Revision
	if revision > p.through {
		return fmt.Sprintf("it was answered at revision %d, and the store is at %d", revision, p.through)
	}
	before := p.at(revision)
	if s.wrote {
		before = p.at(revision - 1)
	}
	acts, results := s.Request.Branch(s.response.Succeeded), s.response.Results
	after, possible := before.perform(acts, results, revision)
	if !possible || before.holds(s.Request.If) != s.response.Succeeded || s.Outcome == Answered && len(results) != len(acts) {
		return "the store before it: " + text(before)
	}
	changes := p.of(revision)
	for key := range after {
		if after[key] == before[key] {
			continue
		}
		i := slices.IndexFunc(changes, func(c change) bool { return c.key == key && c.by == nil && c.is == after[key] })
		if i < 0 {
			return "the store did not change so, or another operation changed it"
		}
		changes[i].by = s
	}
	for _, c := range changes {
		if s.wrote && c.by != nil && c.by != s && (!c.by.Request.Shared || !s.Request.Shared) {
			return "another write has its revision"
		}
	}
	return ""
}
