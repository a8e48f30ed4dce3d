package lastgood

import "time"

const (
	// longestValidity bounds what the validity of an answer adds to a delay: caches repeat an
	// answer for that long, and some zones are valid for a day.
	longestValidity = 5 * time.Minute
	// leastRotating is the size from which answers can be taken for parts of a larger list.
	leastRotating = 3
	// rotations is how many answers have to leave an endpoint out, at least, if each is a part
	// of a larger list.
	rotations = 30
)

// Guard delays the removal of endpoints that a source probably left out by mistake:
//
//   - Fewer than half of the endpoints are left, or none: what disappeared stays until it was
//     missing for Delay. What disappears one by one within Delay counts together.
//   - The source names a part of a larger list each time (with a Window): three endpoints or
//     more, as many as before, but other ones, and some of them are back. What is missing stays
//     until it was missing for Window. It stays for Delay until the first are back.
//
// Anything else is removed at once, and what is new is never delayed. The time during which the
// source is away does not count, see Suspend.
type Guard[E any] struct {
	// Key identifies an endpoint.
	Key func(E) string
	// Delay is that of mass removals. Without a positive one, they are not delayed.
	Delay time.Duration
	// Window is over which lists that rotate are united. Without a positive one, they are not.
	Window time.Duration

	listed   map[string]E // by the source
	missing  map[string]missing[E]
	rotating time.Time // until when the source is known to name parts of a larger list
}

type missing[E any] struct {
	endpoint E
	since    time.Time
	of       int           // how many were listed before
	delay    time.Duration // the removal's, if it is one of many
	window   time.Duration // the removal's, if the source rotates
	exchange bool          // as many others came in its place
	kept     bool
}

// Kept is what stays on the list although the source does not name it.
type Kept[E any] struct {
	Endpoints []E
	// Mass says that they stay because they are too many, and not because the source rotates.
	Mass bool
	// Due is when the first of them is due for removal, by the next Update.
	Due time.Time
}

// Update takes the list that the source names now and returns what is to stay beside it.
// validity is for how long the source repeats its answer without looking, 0 if it does not. That
// there is nothing is not confirmed within that time, and Window is at least 30 of it.
func (g *Guard[E]) Update(now time.Time, list []E, validity time.Duration) Kept[E] {
	next := make(map[string]E, len(list))
	for _, e := range list {
		next[g.Key(e)] = e
	}
	exchange := g.Window > 0 && len(next) >= leastRotating && len(next) == len(g.listed)
	for key := range next {
		if m, ok := g.missing[key]; ok && exchange && m.exchange {
			g.rotating = now.Add(m.window)
		}
		delete(g.missing, key)
	}
	rotating := g.Rotating(now) && len(next) > 0
	validity = min(validity, longestValidity)
	for key, e := range g.listed {
		if _, ok := next[key]; ok {
			continue
		}
		m := missing[E]{endpoint: e, since: now, of: len(g.listed), exchange: exchange || rotating}
		if m.delay = max(g.Delay, 0); len(next) == 0 && g.Delay > 0 {
			m.delay = max(g.Delay, validity)
		}
		if g.Window > 0 {
			m.window = max(g.Window, rotations*validity)
		}
		if g.missing == nil {
			g.missing = map[string]missing[E]{}
		}
		g.missing[key] = m
	}
	g.listed = next
	return g.keepLastGood(now, rotating)
}

// keepLastGood decides about what is missing, and forgets what is missing for long.
func (g *Guard[E]) keepLastGood(now time.Time, rotating bool) Kept[E] {
	most := 0 // listed within the delay
	for key, m := range g.missing {
		age := now.Sub(m.since)
		if age < m.delay {
			most = max(most, m.of)
		} else if age >= m.window || !m.exchange {
			delete(g.missing, key)
		}
	}
	kept := Kept[E]{Mass: !rotating && 2*len(g.listed) < most}
	for key, m := range g.missing {
		limit := m.delay
		if rotating && m.exchange {
			limit = m.window
		}
		m.kept = (kept.Mass || m.exchange) && now.Sub(m.since) < limit
		g.missing[key] = m
		if !m.kept {
			continue
		}
		kept.Endpoints = append(kept.Endpoints, m.endpoint)
		if due := m.since.Add(limit); kept.Due.IsZero() || due.Before(kept.Due) {
			kept.Due = due
		}
	}
	kept.Mass = kept.Mass && len(kept.Endpoints) > 0
	return kept
}

// Suspend says that the source is away: what is missing and was kept is delayed again.
func (g *Guard[E]) Suspend(now time.Time) {
	for key, m := range g.missing {
		if !m.kept {
			delete(g.missing, key)
			continue
		}
		m.since = now
		g.missing[key] = m
	}
}

// Rotating reports whether the source is known to name parts of a larger list.
func (g *Guard[E]) Rotating(now time.Time) bool { return now.Before(g.rotating) }
