package model

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// effect is what is known of the effect of an operation.
type effect uint8

const (
	// placed operations took effect at a revision that is known.
	placed effect = iota
	// loose operations took effect at an unknown revision, or never.
	loose
	// void operations took no effect.
	void
)

// step is an operation of the plan.
type step struct {
	*Operation
	effect effect
	// rank of a placed operation, from 0.
	rank int
	// response of a placed operation. That of an unknown write whose value was seen has no results.
	response Response
	wrote    bool
	// begin and end bound the moment of its effect.
	begin, end time.Duration
}

// plan is a history made ready for the search. Revisions order all operations whose
// revision is known: those that write before those that only read at the same
// revision, and the latter as they were called, which contradicts no order in time.
// So the search has to find only whether time allows that order, and which of the
// loose writes took effect in between.
type plan struct {
	placed, loose, void []*step
	// room has for each rank how many loose writes may take effect right before it:
	// as many as there are revisions that no other write has.
	room []int
	end  time.Duration // of the last operation
}

// newPlan makes the plan of a history.
func newPlan(h History) *plan {
	p := &plan{}
	seen := observe(h.Operations)
	for i := range h.Operations {
		op := &h.Operations[i]
		p.end = max(p.end, op.Return)
		switch {
		case op.Outcome == Answered:
			p.placed = append(p.placed, &step{
				Operation: op, effect: placed, response: op.Response, wrote: op.Request.Wrote(op.Response), begin: op.Call, end: op.Return,
			})
		case !op.Request.Kind.Writes():
		case op.Outcome == Failed:
			p.void = append(p.void, &step{Operation: op, effect: void, begin: op.Return, end: op.Return})
		default:
			p.addUnknown(op, seen)
		}
	}
	slices.SortStableFunc(p.placed, func(a, b *step) int {
		return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(a.Call, b.Call))
	})
	for rank, s := range p.placed {
		s.rank = rank
		if s.Request.Kind == SerializableGet {
			s.begin = p.earliest(rank)
		}
	}
	p.measureRoom(h.Claimed)
	for _, s := range p.loose {
		s.end = p.end + 1 // later than everything
	}
	return p
}

// earliest returns a time before which a serializable get cannot have taken effect. It
// reads the past, but, by its rank, no state older than that of the operation of the
// rank below.
func (p *plan) earliest(rank int) time.Duration {
	if rank == 0 {
		return 0
	}
	return min(p.placed[rank].Call, p.placed[rank-1].begin)
}

// order grows with the revision, and a write comes before what only reads at its revision.
func (s *step) order() int64 {
	if s.wrote {
		return 2 * s.response.Revision
	}
	return 2*s.response.Revision + 1
}

// addUnknown adds a write of unknown outcome. Once a value of it has been seen, it is
// known to have taken effect, at which revision, and before the call that saw it returned.
func (p *plan) addUnknown(op *Operation, seen map[string]observation) {
	for _, succeeded := range []bool{true, false} {
		for _, act := range op.Request.branch(succeeded) {
			first, ok := seen[act.Value]
			if act.Verb != Write || !ok {
				continue
			}
			p.placed = append(p.placed, &step{
				Operation: op, effect: placed, wrote: true,
				response: Response{Revision: first.revision, Succeeded: succeeded},
				begin:    op.Call, end: max(op.Call, first.by),
			})
			return
		}
	}
	p.loose = append(p.loose, &step{Operation: op, effect: loose, begin: op.Call})
}

// observation records that a value was seen.
type observation struct {
	revision int64         // at which it was written
	by       time.Duration // when the first who saw it had returned
}

// observe returns where all values were seen.
func observe(operations []Operation) map[string]observation {
	seen := map[string]observation{}
	for i := range operations {
		op := &operations[i]
		if op.Outcome != Answered {
			continue
		}
		for _, result := range op.Response.Results {
			if result.KV.Version == 0 {
				continue
			}
			earlier, again := seen[result.KV.Value]
			if !again || op.Return < earlier.by {
				seen[result.KV.Value] = observation{result.KV.ModRevision, op.Return}
			}
		}
	}
	return seen
}

// measureRoom counts the revisions that loose writes may have taken.
func (p *plan) measureRoom(claimed func(int64) bool) {
	own := map[int64]bool{}
	for _, s := range p.placed {
		own[s.response.Revision] = own[s.response.Revision] || s.wrote
	}
	p.room = make([]int, len(p.placed))
	for rank := range p.placed {
		between := p.between(rank)
		for r := between[0]; r <= between[1] && p.room[rank] < len(p.loose); r++ {
			if !own[r] && (claimed == nil || !claimed(r)) {
				p.room[rank]++
			}
		}
	}
}

// firstWrite is the revision of the first write of any store.
const firstWrite = 2

// between returns the revisions that are possible for a write that takes effect right
// before the operation of a rank. The number of placed operations stands for the end.
func (p *plan) between(rank int) span {
	s := span{firstWrite, math.MaxInt64}
	if rank > 0 {
		s[0] = p.placed[rank-1].response.Revision + 1
	}
	if rank < len(p.placed) {
		s[1] = p.placed[rank].response.Revision
		if p.placed[rank].wrote {
			s[1]--
		}
	}
	return s
}
