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

// Inspect adds the leases of engines to a report. It shows those with the least time left, up to the limit of o.
func Inspect(engines []*Engine, o introspect.Options, into *introspect.Leases) {
	now := time.Now()
	all := make([]standing, 0, len(engines))
	for _, e := range engines {
		e.mu.Lock()
		all = append(all, e.machine.standings(now)...)
		e.mu.Unlock()
	}
	slices.SortFunc(all, shorter)
	ratio := 1.
	for _, s := range all {
		if s.unanswered {
			into.Unanswered++
		}
		if s.ttl > 0 {
			ratio = min(ratio, s.left.Seconds()/s.ttl.Seconds())
		}
	}
	into.KeptAlive = len(all)
	into.Shortest = make([]introspect.Lease, 0, min(len(all), o.Limit))
	for _, s := range all[:cap(into.Shortest)] {
		into.Shortest = append(into.Shortest, s.shown())
	}
	if len(all) > 0 && all[0].ttl > 0 {
		into.LeftSeconds, into.LeftRatio = into.Shortest[0].LeftSeconds, &ratio
	}
}

// shorter sorts the leases with less time left first, and unknown ones last.
func shorter(a, b standing) int {
	if a.ttl == 0 || b.ttl == 0 {
		return cmp.Or(cmp.Compare(b.ttl, a.ttl), cmp.Compare(a.id, b.id))
	}
	return cmp.Or(cmp.Compare(a.left, b.left), cmp.Compare(a.id, b.id))
}

func (s standing) shown() introspect.Lease {
	shown := introspect.Lease{ID: strconv.FormatInt(s.id, 16), TTLSeconds: s.ttl.Seconds(), Unanswered: s.unanswered}
	if s.ttl > 0 {
		left := s.left.Seconds()
		shown.LeftSeconds = &left
	}
	return shown
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
