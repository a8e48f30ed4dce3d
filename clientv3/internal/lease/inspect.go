package lease

import (
	"cmp"
	"slices"
	"time"
)

// Standing is the state of one lease with keepers.
type Standing struct {
	ID int64
	// TTL is the TTL of the last grant or renewal, and Left how long the lease lives at least
	// without a further renewal. Both are 0 while unknown.
	TTL, Left  time.Duration
	Unanswered bool
}

// Inspection is a snapshot of the state of engines.
type Inspection struct {
	KeptAlive, Unanswered int
	// Left is the least remaining time of a lease, and LeftRatio the least remaining
	// fraction of a TTL. Known says that they are known for at least one lease.
	Left      time.Duration
	LeftRatio float64
	Known     bool
	// Shortest holds the leases with the least time left, up to the limit.
	Shortest []Standing
}

// Inspect adds the state of the engine to in.
func (e *Engine) Inspect(limit int, in *Inspection) {
	now := time.Now()
	e.mu.Lock()
	all := e.machine.standings(now)
	e.mu.Unlock()
	for _, s := range all {
		in.KeptAlive++
		if s.Unanswered {
			in.Unanswered++
		}
		if s.TTL == 0 {
			continue
		}
		ratio := float64(s.Left) / float64(s.TTL)
		if !in.Known {
			in.Left, in.LeftRatio, in.Known = s.Left, ratio, true
		}
		in.Left, in.LeftRatio = min(in.Left, s.Left), min(in.LeftRatio, ratio)
	}
	in.Shortest = append(in.Shortest, all...)
	slices.SortFunc(in.Shortest, shorter)
	in.Shortest = in.Shortest[:min(len(in.Shortest), limit)]
}

func shorter(a, b Standing) int {
	unknown := func(s Standing) int {
		if s.TTL == 0 {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(unknown(a), unknown(b)), cmp.Compare(a.Left, b.Left), cmp.Compare(a.ID, b.ID))
}

// standings returns all leases that have keepers.
func (m *Machine) standings(now time.Time) []Standing {
	at := instant(now.Sub(m.epoch))
	all := make([]Standing, 0, len(m.leases))
	for _, l := range m.leases {
		if l.keepers == 0 {
			continue
		}
		s := Standing{ID: l.id, Unanswered: l.state != Waiting}
		if l.ttl > 0 {
			s.TTL, s.Left = l.ttl, time.Duration(l.renewed.add(l.ttl)-at)
		}
		all = append(all, s)
	}
	return all
}
