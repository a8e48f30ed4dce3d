package faults

import "sync"

// leadership distinguishes a new leader from an earlier one. Members learn of a leader one after the
// other, one that is cut off goes on to name the leader that it knew, and the term in
// their answers is that of the last entry they applied, which a new leader's followers
// report after its name. The zero value knows of no leader.
type leadership struct {
	mu sync.Mutex
	// leader is the one reported last, and term the highest that came with it.
	leader, term uint64
	// early is set while term may be older than the leader.
	early bool
	// said is what each member answered last.
	said map[int]uint64
}

// report records what a member answers, 0 for no leader, and returns whether that is
// the first report of a leader. The first leader of all does not count.
func (l *leadership) report(member int, leader, term uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.said[member] != leader
	if l.said == nil {
		l.said = map[int]uint64{}
	}
	l.said[member] = leader
	switch {
	case leader == 0 || term < l.term:
		return false
	case leader != l.leader:
		if !changed {
			return false // it does not know the latest one
		}
		first := l.leader == 0
		l.leader, l.term, l.early = leader, term, !first
		return !first
	case term > l.term && l.early:
		l.term, l.early = term, false
		return false
	case term > l.term: // elected again
		l.term = term
		return true
	default:
		return false
	}
}
