package pinned

import (
	"slices"

	"github.com/quorate/quorate/balancer"
)

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
