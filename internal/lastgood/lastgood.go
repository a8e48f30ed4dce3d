package lastgood

import (
	"maps"
	"sync"
	"time"
)

const (
	// longestValidity bounds the delay that the validity of an answer adds: caches repeat an
	// answer for that long, and some zones are valid for a day.
	longestValidity = 5 * time.Minute
	// leastRotating is the minimum size of an answer that counts as partial.
	leastRotating = 3
	// rotations is the minimum number of partial answers without an endpoint before it is removed.
	rotations = 30
	// quickReturn is the maximum number of answers, or of their validities, after which the return of an endpoint shows that
	// answers are partial. One that returns later is new: a deployment was rolled back, or another backend has its address.
	quickReturn = 3
)

// Guard delays the removal of endpoints that a source probably omits by mistake:
//
//   - If fewer than half of the endpoints are left, or none, those that disappeared stay until
//     they have been missing for Delay. Those that disappear one by one within Delay count
//     together.
//   - With a Window, if each answer is another part of a larger list: it has three endpoints or
//     more, as many as the one before, but others, some of which return after at most three answers, or three validities. Missing ones
//     stay for Window; before any endpoint has come back, they stay for Delay.
//
// Other removals take effect at once, and new endpoints are never delayed. Time while the source
// is unreachable does not count, see Suspend.
type Guard[E any] struct {
	// Key identifies an endpoint.
	Key func(E) string
	// Delay is the delay of mass removals. They are not delayed unless it is positive.
	Delay time.Duration
	// Window is the time over which partial lists are merged. They are not merged unless it is
	// positive.
	Window time.Duration

	listed   map[string]E // the last list of the source
	missing  map[string]missing[E]
	rotating time.Time // until when the source is known to return partial lists
	outdated bool      // see Outdate
	reached  time.Time // the time of the last Update or Suspend
	updates  int
}

type missing[E any] struct {
	endpoint E
	since    time.Time
	update   int           // the first one without it
	of       int           // the size of the list before
	delay    time.Duration // the delay of a mass removal, or 0
	window   time.Duration // the window of a partial list, or 0
	exchange bool          // as many others were added
	kept     bool
}

// Kept has the endpoints that stay on the list although the source omits them.
type Kept[E any] struct {
	Endpoints []E
	// Mass is set if they stay because of a mass removal, not because of partial lists.
	Mass bool
	// Due is when the first of them is due for removal, by the next Update.
	Due time.Time
}

// Update processes the list of the source and returns the endpoints to keep in addition. validity
// is how long the source repeats its answer, 0 if it does not. An empty list is not confirmed
// within that time, and Window is at least 30 times as long.
func (g *Guard[E]) Update(now time.Time, list []E, validity time.Duration) Kept[E] {
	if g.missing == nil || g.outdated && len(list) > 0 { // it begins, or begins again
		g.listed, g.missing, g.rotating, g.outdated = nil, map[string]missing[E]{}, time.Time{}, false
	}
	next := make(map[string]E, len(list))
	for _, e := range list {
		next[g.Key(e)] = e
	}
	g.updates++
	validity = min(validity, longestValidity)
	exchange := g.Window > 0 && len(next) >= leastRotating && len(next) == len(g.listed)
	for key := range next {
		if m, ok := g.missing[key]; ok && exchange && m.exchange && (g.Rotating(now) || g.updates-m.update <= quickReturn || now.Sub(m.since) < quickReturn*validity) {
			g.rotating = now.Add(m.window)
		}
		delete(g.missing, key)
	}
	rotating := g.Rotating(now) && len(next) > 0
	for key, e := range g.listed {
		if _, ok := next[key]; ok {
			continue
		}
		m := missing[E]{endpoint: e, since: now, update: g.updates, of: len(g.listed), exchange: exchange || rotating}
		if m.delay = max(g.Delay, 0); len(next) == 0 && g.Delay > 0 {
			m.delay = max(g.Delay, validity)
		}
		if g.Window > 0 {
			m.window = max(g.Window, rotations*validity)
		}
		g.missing[key] = m
	}
	g.listed, g.reached = next, now
	return g.keepLastGood(now, rotating)
}

// keepLastGood returns the missing endpoints to keep, and forgets the others.
func (g *Guard[E]) keepLastGood(now time.Time, rotating bool) Kept[E] {
	most := 0 // the maximum size of a list within the delay
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

// Forget removes endpoints that the source withdraws on purpose, before the Update without them.
func (g *Guard[E]) Forget(withdrawn map[string]bool) {
	maps.DeleteFunc(g.listed, func(key string, _ E) bool { return withdrawn[key] })
	maps.DeleteFunc(g.missing, func(key string, _ missing[E]) bool { return withdrawn[key] })
}

// Outdate records that the source was not followed for a while, so that its list may have changed
// completely: the next one that is not empty counts as the first.
func (g *Guard[E]) Outdate() { g.outdated = true }

// Suspend records that the source is unreachable. The delays of kept endpoints start again, unless these are parts of
// partial answers or have passed them: they stay longer, by the time since the last answer.
func (g *Guard[E]) Suspend(now time.Time) {
	maps.DeleteFunc(g.missing, func(_ string, m missing[E]) bool { return !m.kept })
	for key, m := range g.missing {
		if m.since = m.since.Add(now.Sub(g.reached)); !m.exchange && now.Sub(m.since) < m.delay {
			m.since = now
		}
		g.missing[key] = m
	}
	g.rotating, g.reached = g.rotating.Add(now.Sub(g.reached)), now
}

// Rotating reports whether the source is known to return partial lists.
func (g *Guard[E]) Rotating(now time.Time) bool { return now.Before(g.rotating) }

// MaxIdle is the maximum number of sources without a channel that a Registry remembers. Beyond it,
// the one that was stopped first is forgotten.
const MaxIdle = 1000

// Source resolves one target for all channels.
type Source[L any] interface {
	// Stop ends the source without blocking. It returns the state for the next source, and false
	// if there is none worth keeping.
	Stop() (last L, ok bool)
}

// Registry has one running source for each key in use. It keeps the state of a source for maxAge
// after its last channel closed or went idle, and starts the next one with it.
type Registry[K comparable, S Source[L], L any] struct {
	start  func(key K, last L, ok bool) S
	maxAge time.Duration

	mu      sync.Mutex
	running map[K]*running[S]
	idle    map[K]stopped[L]
}

type running[S any] struct {
	source S
	users  int
}

type stopped[L any] struct {
	last L
	at   time.Time
}

// NewRegistry returns a Registry. start receives the state of the last source of the key if ok is
// true; it must not block. No state is kept unless maxAge is positive.
func NewRegistry[K comparable, S Source[L], L any](maxAge time.Duration, start func(key K, last L, ok bool) S) *Registry[K, S, L] {
	return &Registry[K, S, L]{start: start, maxAge: maxAge, running: map[K]*running[S]{}, idle: map[K]stopped[L]{}}
}

// Acquire returns the source of a key, and starts it if necessary. Each call requires a Release.
func (r *Registry[K, S, L]) Acquire(key K) S {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeExpiredLocked()
	s := r.running[key]
	if s == nil {
		known, ok := r.idle[key]
		s = &running[S]{source: r.start(key, known.last, ok)}
		r.running[key] = s
		delete(r.idle, key)
	}
	s.users++
	return s.source
}

// Release stops the source of a key if it has no other users.
func (r *Registry[K, S, L]) Release(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.running[key]
	if s.users--; s.users > 0 {
		return
	}
	delete(r.running, key)
	if last, ok := s.source.Stop(); ok && r.maxAge > 0 {
		r.idle[key] = stopped[L]{last, time.Now()}
	}
	r.removeExpiredLocked()
}

// removeExpiredLocked forgets expired states, and the oldest beyond MaxIdle.
func (r *Registry[K, S, L]) removeExpiredLocked() {
	var oldest K
	first := time.Now()
	for key, s := range r.idle {
		switch {
		case time.Since(s.at) >= r.maxAge:
			delete(r.idle, key)
		case s.at.Before(first):
			oldest, first = key, s.at
		}
	}
	if len(r.idle) > MaxIdle {
		delete(r.idle, oldest)
	}
}
