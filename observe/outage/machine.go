package outage

import (
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
)

// machine decides which lines to log. It has no I/O, goroutines or clock: it processes events with
// their times and returns lines. Times must not go backwards. It is not safe for concurrent use.
type machine struct {
	compares  bool // the latest errors of endpoints that are out with the logged ones
	states    observe.States
	endpoints map[string]*episode
	cluster   episode
	next      time.Time // when advance must be called at the latest, zero if it need not be
	lines     []line    // not written yet

	// How many endpoints serve, are down, or may be either.
	serving, down, open int
}

// count counts an endpoint n times.
func (m *machine) count(ep string, n int) {
	state, known := m.states.Of(ep)
	e := m.endpoints[ep]
	switch {
	case e != nil && e.phase.down():
		m.down += n
	case state == health.Serving, state == health.Slow, state == health.Suspected:
		m.serving += n
	case known && state != health.Restricted:
		m.open += n
	}
}

func newMachine(compares bool) *machine {
	return &machine{compares: compares, endpoints: make(map[string]*episode)}
}

// set replaces the endpoints. Outages of removed ones end.
func (m *machine) set(now time.Time, endpoints []string) {
	m.lapse(now)
	for _, ep := range m.states.Set(endpoints) {
		m.forget(now, ep)
	}
	m.serving, m.down, m.open = 0, 0, 0
	for _, ep := range m.states.Endpoints() {
		m.count(ep, 1)
	}
	m.evaluate(now)
	m.lapse(now)
}

// change processes a new status of an endpoint. What it costs does not depend on their number: all of them may change at once.
func (m *machine) change(now time.Time, c health.Change) {
	m.lapseCluster(now)
	m.count(c.Endpoint, -1)
	if m.states.Change(c) {
		m.changeEndpoint(now, c)
	} else {
		m.forget(now, c.Endpoint)
	}
	m.count(c.Endpoint, 1)
	m.evaluate(now)
	m.expect(m.cluster.due())
}

func (m *machine) changeEndpoint(now time.Time, c health.Change) {
	e := m.endpoints[c.Endpoint]
	if e == nil {
		e = new(episode)
		m.endpoints[c.Endpoint] = e
	}
	m.lapseEndpoint(now, c.Endpoint, e)
	switch c.To {
	case health.Lagging, health.Degraded, health.NotServing, health.Dead:
		e.fails(now)
		e.state, e.evidence = c.To, c.Evidence
		e.note(now, tally{lastErr: c.Evidence.Err})
	case health.Serving, health.Slow, health.Restricted:
		e.serves(now)
	case health.Unknown, health.Suspected, health.Draining:
	}
	m.expect(m.due(e))
}

func (m *machine) forget(now time.Time, ep string) {
	e := m.endpoints[ep]
	delete(m.endpoints, ep)
	if e == nil || !e.phase.logged() || e.covered {
		return
	}
	if e.phase == out {
		e.back = now
	}
	m.log(info("an endpoint that was out has been removed", e.cause(ep), e.summary()))
}

func (m *machine) log(l line) { m.lines = append(m.lines, l) }

// evaluate updates whether the cluster serves. It stays unchanged as long as no endpoint serves
// and the state of one is open.
func (m *machine) evaluate(now time.Time) {
	switch {
	case m.serving > 0:
		m.cluster.serves(now)
	case m.down > 0 && m.open == 0:
		m.cluster.fails(now)
	}
}

// note counts an attempt on an endpoint, "" if unknown.
func (m *machine) note(now time.Time, ep string, t tally) {
	m.cluster.note(now, t)
	if e := m.endpoints[ep]; e != nil {
		e.note(now, t)
	}
}

// advance processes what is due, with the statuses of the endpoints, and returns the lines to log.
func (m *machine) advance(now time.Time, known []health.Status) []line {
	m.compare(now, known)
	m.lapse(now)
	lines := m.lines
	m.lines = nil
	return lines
}

// lapse processes phases that are due, and sets when the next ones are.
func (m *machine) lapse(now time.Time) {
	m.lapseCluster(now)
	m.next = time.Time{}
	m.expect(m.cluster.due())
	for _, ep := range m.named() {
		m.lapseEndpoint(now, ep, m.endpoints[ep])
		m.expect(m.due(m.endpoints[ep]))
	}
}

// named returns the names of the endpoints that have an episode, in order.
func (m *machine) named() []string { return slices.Sorted(maps.Keys(m.endpoints)) }

// compare logs the endpoints that are out for another reason than the logged one: those that the line about the cluster
// names in one line.
func (m *machine) compare(now time.Time, known []health.Status) {
	if !m.compares {
		return
	}
	covered, latest := false, make(map[string]health.Status, len(known))
	for _, s := range known {
		latest[s.Endpoint] = s
	}
	for _, ep := range m.named() {
		e := m.endpoints[ep]
		if e.phase != out || now.Before(e.compareAt) {
			continue
		}
		switch changes := e.hasNewReason(now, latest[ep]); {
		case changes && e.covered:
			covered = true
			m.cluster.tried.lastErr = latest[ep].LastErr
		case changes:
			m.log(warning("an endpoint is out for another reason", e.cause(ep), e.tried.fields()))
		}
	}
	if covered && m.cluster.phase == out {
		m.log(warning("no endpoint can serve, for another reason", m.cluster.members("endpoints", m.cover()), m.cluster.tried.fields()))
	}
}

// wake returns when advance must be called next, and false if it need not be.
func (m *machine) wake(now time.Time) (time.Time, bool) {
	if len(m.lines) > 0 {
		return now, true
	}
	return m.next, !m.next.IsZero()
}

// expect makes a time, if ok is set, one at which advance must be called.
func (m *machine) expect(when time.Time, ok bool) {
	if ok && (m.next.IsZero() || when.Before(m.next)) {
		m.next = when
	}
}

// due returns when the phase of an endpoint lapses, or when it is compared. While it is open whether the whole cluster is
// out, no endpoint is reported as out.
func (m *machine) due(e *episode) (time.Time, bool) {
	switch {
	case m.compares && e.phase == out:
		return e.compareAt, true
	case e.phase == failing && (m.cluster.phase == failing || m.cluster.phase == wavering):
		return time.Time{}, false
	}
	return e.due()
}

// lapseEndpoint processes the phase of an endpoint if it is due.
func (m *machine) lapseEndpoint(now time.Time, ep string, e *episode) {
	if when, ok := m.due(e); !ok || when.After(now) || e.phase == out {
		return
	}
	was := e.phase
	e.lapses()
	switch {
	case was == failing && m.cluster.phase.logged():
		e.covered = true
	case was == failing:
		m.log(warning("an endpoint is out", e.cause(ep), e.tried.fields()))
	case was == recovering && !e.covered:
		m.log(info("an endpoint serves again", e.cause(ep), e.summary()))
	}
}

// lapseCluster processes the phase of the cluster if it is due. Those of endpoints may be due then.
func (m *machine) lapseCluster(now time.Time) {
	when, ok := m.cluster.due()
	if !ok || when.After(now) {
		return
	}
	was := m.cluster.phase
	m.cluster.lapses()
	m.expect(now, true)
	switch was {
	case failing:
		m.log(warning("no endpoint can serve", m.cluster.members("endpoints", m.cover()), m.cluster.tried.fields()))
	case recovering:
		m.log(info("the cluster serves again", m.cluster.members("still-out", m.uncover()), m.cluster.summary()))
	default:
	}
}

// cover marks all endpoints as covered by the line about the cluster, and returns them.
func (m *machine) cover() []member {
	var all []member
	for _, ep := range m.named() {
		e := m.endpoints[ep]
		if !e.phase.down() {
			continue
		}
		if e.phase == failing {
			e.lapses()
			e.covered = true
		}
		all = append(all, member{ep, e.state, e.evidence})
	}
	return all
}

// uncover ends the outages of the endpoints that recovered with the cluster, and returns the
// others.
func (m *machine) uncover() []member {
	var rest []member
	for _, ep := range m.named() {
		e := m.endpoints[ep]
		if e.covered && e.phase == recovering {
			e.lapses()
		}
		e.covered = false
		if e.phase == out {
			rest = append(rest, member{ep, e.state, e.evidence})
		}
	}
	return rest
}
