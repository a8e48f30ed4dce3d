package pinned

import (
	"slices"

	"github.com/quorate/quorate/balancer"
)

// firstOfAll is the form that stays connected to all endpoints. Calls move the pin.
type firstOfAll struct{ pin }

// Pick returns the pinned endpoint. If that is not fit for the call it pins another one,
// or, if it only is to be avoided by this call, lends it another one.
func (s *firstOfAll) Pick(_ balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	for {
		pinned := s.endpoint.Load()
		reason := None
		if pinned != nil {
			if slices.Contains(fit, pinned) {
				return pinned
			}
			if reason = s.against(pinned); reason == None {
				return s.some(fit)
			}
		}
		next := s.sound(fit)
		if next == nil {
			return s.some(fit) // the least bad, for this call
		}
		if s.move(pinned, next, reason) {
			return next
		}
	}
}
