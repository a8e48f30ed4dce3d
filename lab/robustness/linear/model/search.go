package model

import (
	"github.com/anishathalye/porcupine"
)

// state is where the search stands. It is comparable, which is how porcupine finds
// out that it has been somewhere before.
type state struct {
	// next is the rank of the placed operation that comes next, and spent how many
	// loose writes have taken effect since the one before it.
	next, spent int
	store       store
}

// model returns the sequential specification for the search.
func (p *plan) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(from, input, _ any) (bool, any) {
			to, ok := p.step(from.(state), input.(*step))
			return ok, to
		},
		DescribeOperation: func(input, _ any) string { return input.(*step).String() },
		DescribeState:     func(s any) string { return text(s.(state).store) },
	}
}

// step returns the state after an operation, and whether the operation can take
// effect in the state with the response that it has.
func (p *plan) step(from state, s *step) (state, bool) {
	switch s.effect {
	case placed:
		return p.place(from, s)
	case loose:
		return p.apply(from, s)
	default:
		return from, true
	}
}

// place lets a placed operation take effect.
func (p *plan) place(from state, s *step) (state, bool) {
	if s.rank != from.next {
		return from, false
	}
	if s.wrote && !p.mayShare(s, s.rank) {
		return from, false // two writes have one revision
	}
	if from.store.holds(s.Request.If) != s.response.Succeeded {
		return from, false
	}
	acts, results := s.Request.branch(s.response.Succeeded), s.response.Results
	if s.Outcome == Answered && len(results) != len(acts) {
		return from, false
	}
	after, changed, ok := from.store.perform(acts, results, exactly(s.response.Revision))
	return state{next: from.next + 1, store: after}, ok && changed == s.wrote
}

// apply lets a loose write take effect. After the last placed operation its effect
// makes no difference, so it is always possible there; a write that never takes effect
// ends up there, too. Before that it is worth trying only if it changes something.
func (p *plan) apply(from state, s *step) (state, bool) {
	if from.next == len(p.placed) {
		return from, true
	}
	revision, spent := p.between(from.next), from.spent
	if s.Request.Shared {
		// The next placed write may have travelled with it, and so may writes to keys outside of
		// the history.
		if next := p.placed[from.next]; next.wrote && revision[0] <= next.response.Revision && p.mayTravel(s, from.next) {
			revision[1] = next.response.Revision
		}
		if revision[0] > revision[1] {
			return from, false
		}
	} else {
		if spent >= p.room[from.next] {
			return from, false
		}
		revision[0] += int64(spent)
		spent++
	}
	after, changed, ok := from.store.perform(s.Request.branch(from.store.holds(s.Request.If)), nil, revision)
	return state{next: from.next, spent: spent, store: after}, ok && changed
}

// mayShare reports whether a write may have the same revision as writes of a lower rank.
func (p *plan) mayShare(s *step, rank int) bool {
	for before := rank - 1; before >= 0 && p.placed[before].response.Revision >= s.response.Revision; before-- {
		if other := p.placed[before]; !other.wrote || !travels(s, other) {
			return false
		}
	}
	return true
}

// mayTravel reports whether a write may have travelled with all writes of one revision. rank is
// that of the first of them.
func (p *plan) mayTravel(s *step, rank int) bool {
	revision := p.placed[rank].response.Revision
	for ; rank < len(p.placed) && p.placed[rank].wrote && p.placed[rank].response.Revision == revision; rank++ {
		if !travels(s, p.placed[rank]) {
			return false
		}
	}
	return true
}

// travels reports whether two writes may have travelled in one RPC, where no key is written twice.
func travels(a, b *step) bool {
	return a.Request.Shared && b.Request.Shared && a.Request.Then[0].Key != b.Request.Then[0].Key
}

// operations returns the history as porcupine takes it. A write of unknown outcome has
// a row of its own in pictures, because its client goes on before it ends.
func (p *plan) operations() []porcupine.Operation {
	rows := 0
	for _, steps := range [][]*step{p.placed, p.void} {
		for _, s := range steps {
			rows = max(rows, s.Client+1)
		}
	}
	var operations []porcupine.Operation
	for _, steps := range [][]*step{p.placed, p.loose, p.void} {
		for _, s := range steps {
			row := s.Client
			if s.Outcome == Unknown {
				row = rows
				rows++
			}
			operations = append(operations, porcupine.Operation{
				ClientId: row, Input: s, Call: int64(s.begin), Return: int64(s.end),
			})
		}
	}
	return operations
}
