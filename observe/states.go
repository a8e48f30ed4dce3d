package observe

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/health"
)

// States keeps the state of each endpoint of one client, for observers: pass it the
// events EndpointsSet and StateChanged. It drops removed endpoints. The zero value is
// ready. It is not safe for concurrent use.
//
// As long as Set was never called every endpoint counts as one of the client's, until it
// is [health.Draining].
type States struct {
	states map[string]health.State
	set    bool
}

// Set replaces the endpoints, and returns those that are not among them any more, in
// order. New ones are [health.Unknown].
func (s *States) Set(endpoints []string) (removed []string) {
	next := make(map[string]health.State, len(endpoints))
	for _, ep := range endpoints {
		next[ep] = s.states[ep]
	}
	for ep := range s.states {
		if _, stays := next[ep]; !stays {
			removed = append(removed, ep)
		}
	}
	s.states, s.set = next, true
	slices.Sort(removed)
	return removed
}

// Change records a change, and reports whether its endpoint is one of the client's. A
// removed endpoint may change for a while; that is ignored.
func (s *States) Change(c health.Change) bool {
	_, known := s.states[c.Endpoint]
	switch {
	case s.set && (!known || c.To == health.Draining):
		return known // Set reports what was removed
	case c.To == health.Draining:
		delete(s.states, c.Endpoint)
		return false
	case s.states == nil:
		s.states = make(map[string]health.State)
	}
	s.states[c.Endpoint] = c.To
	return true
}

// Of returns the state of an endpoint, and whether it is one of the client's.
func (s *States) Of(endpoint string) (health.State, bool) {
	state, ok := s.states[endpoint]
	return state, ok
}

// Has reports whether an endpoint is one of the client's, as far as that is known.
func (s *States) Has(endpoint string) bool {
	_, known := s.states[endpoint]
	return known || !s.set
}

// Endpoints returns the endpoints, in order.
func (s *States) Endpoints() []string { return slices.Sorted(maps.Keys(s.states)) }
