package outage

import (
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
	lines     []line // not written yet
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
	m.evaluate(now)
}

// change processes a new status of an endpoint.
func (m *machine) change(now time.Time, c health.Change) {
	m.lapse(now)
	if !m.states.Change(c) {
		m.forget(now, c.Endpoint)
		m.evaluate(now)
		return
	}
	e := m.endpoints[c.Endpoint]
	if e == nil {
		e = new(episode)
		m.endpoints[c.Endpoint] = e
	}
	switch c.To {
	case health.Lagging, health.Degraded, health.NotServing, health.Dead:
		e.fails(now)
		e.state, e.evidence = c.To, c.Evidence
		e.note(now, tally{lastErr: c.Evidence.Err})
	case health.Serving, health.Slow, health.Restricted:
		e.serves(now)
	case health.Unknown, health.Suspected, health.Draining:
	}
	m.evaluate(now)
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
	down, open := 0, false
	for _, ep := range m.states.Endpoints() {
		state, _ := m.states.Of(ep)
		e := m.endpoints[ep]
		switch {
		case e != nil && e.phase.down():
			down++
		case state == health.Serving, state == health.Slow, state == health.Suspected:
			m.cluster.serves(now)
			return
		case state != health.Restricted:
			open = true
		}
	}
	if down > 0 && !open {
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
	m.lapse(now)
	m.compare(now, known)
	lines := m.lines
	m.lines = nil
	return lines
}

// lapse processes phases that are due.
func (m *machine) lapse(now time.Time) {
	if when, ok := m.cluster.due(); ok && !when.After(now) {
		m.clusterLapses()
	}
	for _, ep := range m.states.Endpoints() {
		e := m.endpoints[ep]
		if e == nil {
			continue
		}
		if when, ok := m.due(e); ok && !when.After(now) {
			m.endpointLapses(ep, e)
		}
	}
}

// compare logs the endpoints that are out for another reason than the logged one: those that the line about the cluster
// names in one line.
func (m *machine) compare(now time.Time, known []health.Status) {
	if !m.compares {
		return
	}
	covered := false
	for _, ep := range m.states.Endpoints() {
		e := m.endpoints[ep]
		if e == nil || e.phase != out || now.Before(e.compareAt) {
			continue
		}
		var latest health.Status
		for _, s := range known {
			if s.Endpoint == ep {
				latest = s
			}
		}
		switch changes := e.hasNewReason(now, latest); {
		case changes && e.covered:
			covered = true
			m.cluster.tried.lastErr = latest.LastErr
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
	wake, any := m.cluster.due()
	for _, e := range m.endpoints {
		when, ok := m.due(e)
		if m.compares && e.phase == out {
			when, ok = e.compareAt, true
		}
		if ok && (!any || when.Before(wake)) {
			wake, any = when, true
		}
	}
	return wake, any
}

// due returns when the phase of an endpoint lapses. While it is open whether the whole cluster is
// out, no endpoint is reported as out.
func (m *machine) due(e *episode) (time.Time, bool) {
	open := m.cluster.phase == failing || m.cluster.phase == wavering
	if e.phase == failing && open {
		return time.Time{}, false
	}
	return e.due()
}

func (m *machine) endpointLapses(ep string, e *episode) {
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

func (m *machine) clusterLapses() {
	was := m.cluster.phase
	m.cluster.lapses()
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
	for _, ep := range m.states.Endpoints() {
		e := m.endpoints[ep]
		if e == nil || !e.phase.down() {
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
	for _, ep := range m.states.Endpoints() {
		e := m.endpoints[ep]
		if e == nil {
			continue
		}
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
