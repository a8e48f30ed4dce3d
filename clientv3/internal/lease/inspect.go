package lease

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/observe/introspect"
)

// standing is the state of a lease with keepers. ttl and left are 0 while unknown.
type standing struct {
	id         int64
	ttl, left  time.Duration
	unanswered bool
}

// Inspect adds the leases of the engine to a report. It keeps those with the least time left, up to the limit of o.
func (e *Engine) Inspect(o introspect.Options, into *introspect.Leases) {
	now := time.Now()
	e.mu.Lock()
	all := e.machine.standings(now)
	e.mu.Unlock()
	for _, s := range all {
		shown := introspect.Lease{ID: strconv.FormatInt(s.id, 16), TTLSeconds: s.ttl.Seconds(), Unanswered: s.unanswered}
		into.KeptAlive++
		if s.unanswered {
			into.Unanswered++
		}
		if s.ttl > 0 {
			left := s.left.Seconds()
			shown.LeftSeconds = &left
			into.LeftSeconds = least(into.LeftSeconds, left)
			into.LeftRatio = least(into.LeftRatio, left/shown.TTLSeconds)
		}
		into.Shortest = append(into.Shortest, shown)
	}
	slices.SortFunc(into.Shortest, shorter)
	into.Shortest = into.Shortest[:min(len(into.Shortest), o.Limit)]
}

// least returns the lower of two numbers; nil stands for no number.
func least(a *float64, b float64) *float64 {
	if a != nil && *a <= b {
		return a
	}
	return &b
}

// shorter sorts the leases with less time left first, and unknown ones last.
func shorter(a, b introspect.Lease) int {
	if a.LeftSeconds == nil || b.LeftSeconds == nil {
		return cmp.Or(cmp.Compare(b.TTLSeconds, a.TTLSeconds), cmp.Compare(a.ID, b.ID))
	}
	return cmp.Or(cmp.Compare(*a.LeftSeconds, *b.LeftSeconds), cmp.Compare(a.ID, b.ID))
}

// standings returns all leases that have keepers.
func (m *Machine) standings(now time.Time) []standing {
	at := instant(now.Sub(m.epoch))
	all := make([]standing, 0, len(m.leases))
	for _, l := range m.leases {
		if l.keepers == 0 {
			continue
		}
		s := standing{id: l.id, unanswered: l.state != Waiting}
		if l.ttl > 0 {
			s.ttl, s.left = l.ttl, time.Duration(l.renewed.add(l.ttl)-at)
		}
		all = append(all, s)
	}
	return all
}
