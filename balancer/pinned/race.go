package pinned

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/balancer"
)

// race is the form that connects to one endpoint. Wanted moves the pin.
type race struct {
	pin
	// loser is the endpoint that was unpinned before the present race, nil if there is no
	// race.
	loser *balancer.Endpoint
}

// Pick returns the pinned endpoint, or, during a race, another connected one.
func (s *race) Pick(_ balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	if pinned := s.endpoint.Load(); pinned != nil && slices.Contains(fit, pinned) {
		return pinned
	}
	return s.randomOf(fit)
}

// Wanted returns the pinned endpoint while there is no [Reason] to unpin it, or else the
// endpoints that race to replace it.
func (s *race) Wanted(all []*balancer.Endpoint) []*balancer.Endpoint {
	pinned := s.endpoint.Load()
	reason := None
	if pinned != nil {
		reason = s.reasonToUnpin(pinned)
		if !slices.Contains(all, pinned) {
			reason = Removed
		}
		if reason == None {
			return []*balancer.Endpoint{pinned}
		}
	}
	if winner := s.randomUsable(s.contenders(all)); winner != nil {
		s.move(pinned, winner, reason)
		s.loser = nil
		return []*balancer.Endpoint{winner}
	}
	if !reason.useful() {
		s.move(pinned, nil, reason)
		s.loser = pinned
	}
	return s.racers(all)
}

// contenders returns the endpoints of the best priority of which one can win.
func (s *race) contenders(all []*balancer.Endpoint) []*balancer.Endpoint {
	able := slices.DeleteFunc(slices.Clone(all), func(ep *balancer.Endpoint) bool {
		return byState[ep.State()] != None || s.unreachable(ep)
	})
	if len(able) == 0 {
		return nil
	}
	best := s.priority(slices.MinFunc(able, func(a, b *balancer.Endpoint) int {
		return cmp.Compare(s.priority(a), s.priority(b))
	}))
	return slices.DeleteFunc(able, func(ep *balancer.Endpoint) bool { return s.priority(ep) != best })
}

// racers returns the endpoints that race: all, except the one that was just unpinned if
// its reason still holds and there is an alternative. One that was merely disconnected
// races with the others.
func (s *race) racers(all []*balancer.Endpoint) []*balancer.Endpoint {
	if s.loser == nil || byState[s.loser.State()].useful() {
		return all
	}
	others := slices.DeleteFunc(slices.Clone(all), func(ep *balancer.Endpoint) bool { return ep == s.loser })
	if slices.ContainsFunc(others, func(ep *balancer.Endpoint) bool {
		return byState[ep.State()].useful() && !s.unreachable(ep)
	}) {
		return others
	}
	return all
}

// firstOfAll is the form that stays connected to all endpoints. Pick moves the pin.
type firstOfAll struct{ pin }

// Pick returns the pinned endpoint. If that one is not fit for the call, Pick pins
// another one; if only this call is to avoid it, Pick returns another one of its priority
// and keeps the pin.
func (s *firstOfAll) Pick(_ balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	for {
		pinned := s.endpoint.Load()
		reason := None
		if pinned != nil {
			if slices.Contains(fit, pinned) {
				return pinned
			}
			reason = s.reasonToUnpin(pinned)
			switch {
			case s.priority(fit[0]) < s.priority(pinned):
				reason = Outranked
			case reason == None:
				return s.randomOf(fit)
			}
		}
		next := s.randomUsable(fit)
		if next == nil {
			return s.randomOf(fit) // all are unfit: any, for this call only
		}
		if s.move(pinned, next, reason) {
			return next
		}
	}
}
