package pinned

import (
	"slices"

	"github.com/quorate/quorate/balancer"
)

// race is the form that is connected to one endpoint. The policy's question which
// endpoints it wants moves the pin.
type race struct {
	pin
	// loser is the endpoint that was given up before the race that is on, nil if none is.
	loser *balancer.Endpoint
}

// Pick returns the pinned endpoint, or another one that is connected while there is a
// race.
func (s *race) Pick(_ balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	if pinned := s.endpoint.Load(); pinned != nil && slices.Contains(fit, pinned) {
		return pinned
	}
	return s.some(fit)
}

// Wanted returns the pinned endpoint while nothing speaks against it, or else those that
// race to take its place.
func (s *race) Wanted(all []*balancer.Endpoint) []*balancer.Endpoint {
	pinned := s.endpoint.Load()
	reason := None
	if pinned != nil {
		reason = s.against(pinned)
		if !slices.Contains(all, pinned) {
			reason = Removed
		}
		if reason == None {
			return []*balancer.Endpoint{pinned}
		}
	}
	if winner := s.sound(all); winner != nil {
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

// racers returns the endpoints that race: all, but for the one that was just given up if
// it still is of no use and another may be better. One that was merely disconnected
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
